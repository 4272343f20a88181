#!/usr/bin/env bash
# Is the prediction of `ichido lanes simulate` what happens? Sends messages to two levels at random times, runs them for real (each
# sleeps), and prints the waiting times per level beside the predicted ones.
#
#   bench/lanes.sh [POLICY [SECONDS [DATABASE_URL]]]     default: weighted, 60, a fresh SQLite file
#
# ICHIDO names the binary; without it the release build is used.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
policy=${1:-weighted} seconds=${2:-60} url=${3:-sqlite://$folder/bench.db}
member=12 free=8 service=0.150 slots=4
root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/..
ichido=$(readlink -f "${ICHIDO:-$root/target/release/ichido}")
cd "$folder"

cat >ichido.toml <<END
[database]
url = "$url"
[lanes.bench_lanes]
policy   = "$policy"
levels   = [{ level = "member", queue = "bench_member", weight = 4 }, { level = "free", queue = "bench_free" }]
level_by = { field = "level", map = { member = "member" }, default = "free" }
[actions.Bench]
from        = "bench_lanes"
concurrency = $slots
exec        = ["bash", "start.sh"]
END
# The message on standard input has its level and the time of its sending, in microseconds.
cat >start.sh <<'END'
now=${EPOCHREALTIME/./}
read -r message
[[ $message =~ \"level\":\"([a-z]+)\" ]] && level=${BASH_REMATCH[1]}
[[ $message =~ \"sent\":([0-9]+) ]] && echo "$level $((now - BASH_REMATCH[1]))" >>started
END
echo "sleep $service" >>start.sh
"$ichido" -q migrate >/dev/null

# Times of arrival in seconds, exponentially distributed gaps, both levels in one line.
arrivals() {
    awk -v seconds="$seconds" -v member="$member" -v free="$free" 'BEGIN {
        srand(7)
        for (t = 0; t < seconds; t += -log(1 - rand()) / member) printf "%.4f member\n", t
        for (t = 0; t < seconds; t += -log(1 - rand()) / free) printf "%.4f free\n", t
    }' | sort -n
}

: >started
"$ichido" -q run Bench 2>run.log &
runner=$!
begun=${EPOCHREALTIME/./}
arrivals | while read -r at level; do
    wait=$(awk -v at="$at" -v past="$((${EPOCHREALTIME/./} - begun))" 'BEGIN { w = at - past / 1e6; print (w > 0 ? w : 0) }')
    sleep "$wait"
    "$ichido" -q send bench_lanes "{\"level\":\"$level\",\"sent\":${EPOCHREALTIME/./}}" >/dev/null
done
while [[ $("$ichido" status --json | grep -o '"ready":[1-9]' | head -1) ]]; do sleep 0.2; done
kill "$runner"
wait "$runner" || true

echo "predicted ($policy)"
"$ichido" -q lanes simulate --rate "member=$member/s" --rate "free=$free/s" --service "150ms" --fixed --duration "${seconds}s" 2>/dev/null
echo "measured"
for level in member free; do
    sort -n -k2 started | awk -v level="$level" '$1 == level { wait[++n] = $2 / 1000; sum += $2 / 1000 }
        END { printf "%-7s %d messages, mean %.1fms, p50 %.1fms, p95 %.1fms, p99 %.1fms, max %.1fms\n",
              level, n, sum / n, wait[int((n + 1) / 2)], wait[int(n * 0.95 + 0.999)], wait[int(n * 0.99 + 0.999)], wait[n] }'
done
