#!/usr/bin/env bash
# Is the hot path slower than before? Runs two binaries in turns on one PostgreSQL (private, fsync on) and prints messages per second:
# one message per transaction, and a commit interval of 100. The queue is a managed one; the action inserts one row.
#
#   bench/hot_path.sh BEFORE AFTER [MESSAGES [ROUNDS]]     binaries of ichido; default: 10000, 5
#
# ACTIONS chooses: One, Hundred or both. A guarded RabbitMQ consumer is measured by bench/rabbitmq.sh, run from each checkout in turns.
set -euo pipefail

before=$(readlink -f "$1") after=$(readlink -f "$2")
messages=${3:-10000} rounds=${4:-5}
folder=$(mktemp -d)
programs=$(dirname "$(find /usr/lib/postgresql -name initdb | sort -V | tail -1)")
port=$((20000 + RANDOM % 20000))
as() { if [[ $(id -u) == 0 ]]; then runuser -u postgres -- "$@"; else "$@"; fi; }
[[ $(id -u) != 0 ]] || chown postgres "$folder"
trap 'as "$programs/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$folder"' EXIT
as "$programs/initdb" -D "$folder/data" -U postgres -A trust >/dev/null
as "$programs/pg_ctl" -D "$folder/data" -w -l "$folder/log" -o "-p $port -h 127.0.0.1 -k $folder" start >/dev/null
as "$programs/psql" -qh 127.0.0.1 -p "$port" -U postgres -c 'create table bench_effect (n bigint)'

work=$(mktemp -d)
cd "$work"
cat >ichido.toml <<END
[database]
url = "postgres://postgres@127.0.0.1:$port/postgres"
[queues.bench]
[actions.One]
from        = "bench"
concurrency = 8
sql         = ["insert into bench_effect (n) values (:n)"]
[actions.Hundred]
from            = "bench"
concurrency     = 8
commit_interval = 100
sql             = ["insert into bench_effect (n) values (:n)"]
END
"$before" -q migrate >/dev/null
seq "$messages" | sed 's/.*/{"n":&}/' >messages

run() { # BINARY ACTION
    "$1" -q send bench --file messages >/dev/null
    local begun ended
    begun=$(date +%s%N)
    "$1" -q run "$2" --drain 2>/dev/null
    ended=$(date +%s%N)
    echo $((messages * 1000000000 / (ended - begun)))
}

for action in ${ACTIONS:-One Hundred}; do
    for ((round = 1; round <= rounds; round++)); do
        echo "$action round $round: before $(run "$before" $action)/s, after $(run "$after" $action)/s"
    done
done
done_rows=$(cd / && as "$programs/psql" -qAth 127.0.0.1 -p "$port" -U postgres -c 'select count(*) from bench_effect')
echo "effects $done_rows"
rm -rf "$work"
