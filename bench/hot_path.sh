#!/usr/bin/env bash
# Is the hot path slower than before? Runs two binaries in turns on one PostgreSQL (private, fsync on) and prints messages per second:
# one message per transaction, a commit interval of 100, and a guarded consumer of a quorum queue at RabbitMQ (a private node). The action
# inserts one row; the first two queues are managed.
#
#   bench/hot_path.sh BEFORE AFTER [MESSAGES [ROUNDS]]     binaries of ichido; default: 10000, 5
#
# ACTIONS chooses: One, Hundred, Guarded, or several of them.
set -euo pipefail

before=$(readlink -f "$1") after=$(readlink -f "$2")
messages=${3:-10000} rounds=${4:-5}
folder=$(mktemp -d) work=$(mktemp -d)
programs=$(dirname "$(find /usr/lib/postgresql -name initdb | sort -V | tail -1)")
port=$((20000 + RANDOM % 20000))
as() { if [[ $(id -u) == 0 ]]; then runuser -u postgres -- "$@"; else "$@"; fi; }
[[ $(id -u) != 0 ]] || chown postgres "$folder"
node=ichido_bench_$$@localhost
rabbit() { env HOME="$work" RABBITMQ_NODENAME="$node" "$@"; }
trap 'rabbit /usr/lib/rabbitmq/bin/rabbitmqctl -q stop >/dev/null 2>&1 || true; as "$programs/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$folder" "$work"' EXIT
as "$programs/initdb" -D "$folder/data" -U postgres -A trust >/dev/null
as "$programs/pg_ctl" -D "$folder/data" -w -l "$folder/log" -o "-p $port -h 127.0.0.1 -k $folder" start >/dev/null
sql() { (cd / && as "$programs/psql" -qAth 127.0.0.1 -p "$port" -U postgres "$@"); }

cd "$work"
broker=$((port + 1))
if [[ ${ACTIONS:-Guarded} == *Guarded* ]]; then
    rabbit RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT=$broker RABBITMQ_DIST_PORT=$((port + 2)) RABBITMQ_MNESIA_BASE="$work/node" \
        RABBITMQ_LOGS="$work/log" RABBITMQ_ENABLED_PLUGINS_FILE="$work/plugins" RABBITMQ_PID_FILE="$work/pid" \
        /usr/lib/rabbitmq/bin/rabbitmq-server >/dev/null 2>&1 &
    while [[ ! -s $work/pid ]]; do sleep 0.2; done
    rabbit /usr/lib/rabbitmq/bin/rabbitmqctl -q wait "$work/pid" >/dev/null
fi
# A database for each of them: an old version does not run on tables of a much newer one.
for name in before after; do
    sql -c "create database $name"
    sql -d "$name" -c 'create table bench_effect (n bigint)'
    cat >"$name.toml" <<END
[database]
url = "postgres://postgres@127.0.0.1:$port/$name"
[queues.bench]
[queues.guarded]
rabbitmq = { url = "amqp://guest:guest@127.0.0.1:$broker", queue = "ichido_bench_$name" }
[actions.Guarded]
from        = "guarded"
concurrency = 8
sql         = ["insert into bench_effect (n) values (:n)"]
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
    "${!name}" --config "$name.toml" -q migrate >/dev/null
done
seq "$messages" | sed 's/.*/{"n":&}/' >messages

# Prints messages per second, and the processor time of the program per message in microseconds, which a busy machine disturbs less.
run() { # before|after ACTION
    local queue=bench binary=${!1}
    [[ $2 != Guarded ]] || queue=guarded
    "$binary" --config "$1.toml" -q send $queue --file messages >/dev/null
    local begun ended times
    begun=$(date +%s%N)
    times=$({ TIMEFORMAT='%U %S'; time "$binary" --config "$1.toml" -q run "$2" --drain 2>/dev/null; } 2>&1 >/dev/null)
    ended=$(date +%s%N)
    awk -v n="$messages" -v ns=$((ended - begun)) '{ printf "%d/s %d us", n * 1e9 / ns, ($1 + $2) * 1e6 / n }' <<<"$times"
}

# Who runs first in a round changes with the round.
for action in ${ACTIONS:-One Hundred Guarded}; do
    for ((round = 1; round <= rounds; round++)); do
        if ((round % 2)); then
            first=$(run before "$action") second=$(run after "$action")
        else
            second=$(run after "$action") first=$(run before "$action")
        fi
        echo "$action round $round: before $first, after $second"
    done
done
for name in before after; do
    echo "effects $name: $(sql -d "$name" -c 'select count(*) from bench_effect')"
done
