#!/usr/bin/env bash
# What does a scrape of /metrics each second cost? Runs the same number of messages in turns, with and without somebody who scrapes, and
# prints the messages per second of each run, how often it was scraped, and the ratio of the means: with one message per transaction, and
# with a commit interval of 100. Both answer on --health. The queue is a managed one and the action does nothing.
#
#   bench/scrape.sh [DATABASE_URL [MESSAGES [ROUNDS]]]     default: a fresh SQLite file, 10000 (ten times that at the interval of 100), 5
#
# ICHIDO names the binary; without it the release build is used.
set -euo pipefail

. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"
url=${1:-sqlite://$folder/bench.db} messages=${2:-10000} rounds=${3:-5}
health=127.0.0.1:$((20000 + RANDOM % 20000))
cd "$folder"

cat >ichido.toml <<END
[database]
url = "$url"
[queues.bench]
[actions]
One     = { from = "bench", concurrency = 8, sql = ["select 1"] }
Hundred = { from = "bench", concurrency = 8, commit_interval = 100, sql = ["select 1"] }
END
"$ichido" -q migrate >/dev/null

scrape() {
    while sleep 1; do
        if curl --silent --fail --output /dev/null "http://$health/metrics"; then echo >>scrapes; fi
    done
}

# Messages per second of an action, with ("scraped") or without ("alone").
run() {
    "$ichido" -q send bench --file messages >/dev/null
    : >scrapes
    local begun ended scraper=
    if [[ $2 == scraped ]]; then
        scrape &
        scraper=$!
    fi
    begun=$(date +%s%N)
    "$ichido" -q run "$1" --drain --health "$health" 2>/dev/null
    ended=$(date +%s%N)
    if [[ -n $scraper ]]; then
        kill "$scraper"
        wait "$scraper" 2>/dev/null || true
    fi
    echo $((sent * 1000000000 / (ended - begun)))
}

for action in One Hundred; do
    sent=$messages
    [[ $action == One ]] || sent=$((messages * 10))
    seq "$sent" | sed 's/.*/{"n":&}/' >messages
    sums=(0 0)
    for ((round = 1; round <= rounds; round++)); do
        alone=$(run $action alone) scraped=$(run $action scraped)
        echo "$action round $round: alone $alone/s, scraped $(wc -l <scrapes) times $scraped/s"
        sums=($((sums[0] + alone)) $((sums[1] + scraped)))
    done
    echo "$action: scraped runs reach $((sums[1] * 1000 / sums[0])) per mille of those alone"
done
