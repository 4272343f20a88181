#!/usr/bin/env bash
# What does the guard over RabbitMQ cost? Runs the same orders from a quorum queue into the same table, one transaction each, in
# turns: by ichido with its mutex, and by a plain consumer without any guard. Starts its own PostgreSQL (fsync on) and RabbitMQ.
# Prints the messages per second of each run and the ratio; the goal is 60 %.
#
#   bench/rabbitmq.sh [MESSAGES [ROUNDS [lock|lease]]]     default: 5000, 5, lock
set -euo pipefail

root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/..
target=${CARGO_TARGET_DIR:-$root/target}
cd "$root/bench"
CARGO_TARGET_DIR=$target cargo build --release --locked --quiet -p bench-rabbitmq
"$target/release/bench-rabbitmq" "$@"
