#!/usr/bin/env bash
# Is the prediction of `ichido lanes simulate` what happens? Sends messages to two levels at random times, runs them for real (each
# sleeps), and prints the waiting times per level beside the predicted ones.
#
#   bench/lanes.sh [POLICY [SECONDS [DATABASE_URL]]]     default: weighted, 60, a fresh SQLite file
#
# ICHIDO names the binary; without it the release build is used.
set -euo pipefail

. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"
policy=${1:-weighted} seconds=${2:-60} url=${3:-sqlite://$folder/bench.db}
member=12 free=8 service=0.150 slots=4
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
exec        = ["sleep", "$service"]
END
"$ichido" -q migrate >/dev/null

# Times of arrival in seconds, exponentially distributed gaps, both levels in one line.
arrivals() {
    awk -v seconds="$seconds" -v member="$member" -v free="$free" 'BEGIN {
        srand(7)
        for (t = 0; t < seconds; t += -log(1 - rand()) / member) printf "%.4f member\n", t
        for (t = 0; t < seconds; t += -log(1 - rand()) / free) printf "%.4f free\n", t
    }' | sort -n
}

"$ichido" -q run Bench 2>run.log &
runner=$!
begun=${EPOCHREALTIME/./}
arrivals | while read -r at level; do
    wait=$(awk -v at="$at" -v past="$((${EPOCHREALTIME/./} - begun))" 'BEGIN { w = at - past / 1e6; print (w > 0 ? w : 0) }')
    sleep "$wait"
    "$ichido" -q send bench_lanes "{\"level\":\"$level\"}" >/dev/null
done
while [[ $("$ichido" status --json | grep -o '"ready":[1-9]' | head -1) ]]; do sleep 0.2; done
kill "$runner"
wait "$runner" || true

# What ichido itself has measured: from the COMMIT of the send to the start, by the database's clock; and how long a message took, program and all.
measured() {
    "$ichido" status --json | grep -o '"measured":.*' | grep -o "\"level\":\"$1\".*" | grep -o "\"$2\":{[^}]*}" | head -1
}
took=$(measured member running_ms | grep -o '"p50":[0-9.]*' | cut -d: -f2)
echo "predicted ($policy), with ${took} ms per message as they really took"
"$ichido" -q lanes simulate --rate "member=$member/s" --rate "free=$free/s" --service "$(awk -v t="$took" 'BEGIN { printf "%.0fms", t }')" \
    --fixed --duration "${seconds}s" 2>/dev/null
echo "measured"
for level in member free; do
    echo "$level  $(measured "$level" waiting_ms)"
done
