#!/usr/bin/env bash
# What a fleet of small processes does and costs; see bench/fleet/src/main.rs for the scenarios and their options.
#
#   bench/fleet.sh processes|idle|rows|due|pickup [--OPTION VALUE]...
#
# ICHIDO names the binary; without it the release build is built and used.
set -euo pipefail
root=$(readlink -f "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/..")
[[ -n ${ICHIDO:-} ]] || cargo build --locked --release --manifest-path "$root/Cargo.toml" -p ichido-cli
target=${CARGO_TARGET_DIR:-$root/target}
cd "$root/bench"
CARGO_TARGET_DIR=$target cargo build --locked --release --quiet -p bench-fleet
exec "$target/release/bench-fleet" "$@"
