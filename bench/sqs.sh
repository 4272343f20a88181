#!/usr/bin/env bash
# What does a message cost at SQS? Counts the calls of the API, which Amazon bills, for one queue at full load and for a lane set of two.
# Starts its own LocalStack (./test installs it) and PostgreSQL. Prints calls per message; the goal for one queue is 0.4. It says
# nothing about speed at Amazon's: LocalStack is a Python process on this machine.
#
#   bench/sqs.sh [MESSAGES]     default: 5000
set -euo pipefail

root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/..
cd "$root"
ichido=${ICHIDO:-${CARGO_TARGET_DIR:-target}/release/ichido}
if [[ -z ${ICHIDO:-} ]]; then
    cargo build --release --locked --quiet -p ichido-cli
fi
cargo run --locked --quiet -p ichido-test-servers --example sqs_bill -- "$ichido" "$@"
