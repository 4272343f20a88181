#!/usr/bin/env bash
# What does one bad message in ten cost? Runs the same number of messages side by side, all good and every tenth of them parked,
# in turns, and prints the messages per second of each run and the ratio. The queue is a managed one and the effect a message in
# another, so that any database will do without a table of its own.
#
#   bench/parked.sh [DATABASE_URL [MESSAGES [ROUNDS]]]     default: a fresh SQLite file, 10000, 3
#
# ICHIDO names the binary; without it the release build is used.
set -euo pipefail

. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"
url=${1:-sqlite://$folder/bench.db}
messages=${2:-10000}
rounds=${3:-3}
cd "$folder"

cat >ichido.toml <<END
[database]
url = "$url"
[queues.bench_in]
[queues.bench_out]
[actions.Bench]
from        = "bench_in"
concurrency = 8
retry       = { attempts = 1 }
sql         = ["insert into ichido_message (queue, payload) values ('bench_out', :text)"]
[actions.Sweep]
from        = "bench_out"
concurrency = 8
sql         = ["select 1"]
END
"$ichido" -q migrate >/dev/null

# A message without the field `text` cannot be read and is parked at once.
lines() {
    local n
    for ((n = 1; n <= messages; n++)); do
        if [[ $1 == tenth && $((n % 10)) == 0 ]]; then echo "{\"n\":$n}"; else echo "{\"n\":$n,\"text\":\"$n\"}"; fi
    done
}

run() {
    lines "$1" | "$ichido" -q send bench_in --file - >/dev/null
    local begun ended
    begun=$(date +%s%N)
    "$ichido" -q run Bench --drain 2>/dev/null
    ended=$(date +%s%N)
    echo $((messages * 1000000000 / (ended - begun)))
    "$ichido" -q run Sweep --drain 2>/dev/null
    "$ichido" -q failed discard --queue bench_in --limit "$messages" >/dev/null
}

total_all=0 total_tenth=0
for ((round = 1; round <= rounds; round++)); do
    all=$(run all)
    tenth=$(run tenth)
    echo "round $round: all good $all/s, every tenth parked $tenth/s"
    total_all=$((total_all + all)) total_tenth=$((total_tenth + tenth))
done
echo "ratio $((total_tenth * 100 / total_all)) %"
