#!/usr/bin/env bash
# What does an open console cost? A private PostgreSQL with a table of ROWS rows that is a queue (90 % done, 5 % claimable, 3 % waiting,
# 2 % failed), `ichido run` at work on it, ORDERS coming in a second, and a console that somebody looks at. First a page is open, live by
# server-sent events, one after the other: prints the console's part of the server's statement time (pg_stat_statements, by role), and
# of the time that passed. Then every page is loaded once a second: prints how long each takes. The goals are less than 1 % of the statement
# time, and 100 ms for a page, at 10 million rows.
#
#   bench/console.sh [ROWS [SECONDS [ORDERS [PAGE...]]]]     default: 10000000, 300, 300 and three pages; counts are used for up to 5 min, so less says little
#   bench/console.sh size                 how much the feature `console` adds to the release binary; builds it twice
#
# ICHIDO names the binary; without it the release build is used.
set -euo pipefail

. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"

if [[ ${1:-} == size ]]; then
    # In a target folder of its own: it would take the release build's place.
    build() { (cd "$root" && cargo build --release --locked -p ichido-cli --target-dir "$root/target/size" "$@" >&2 && stat -c %s target/size/release/ichido); }
    # All features that are on by default, but one.
    others=$(sed -n 's/^default *= *\[\(.*\)\]/\1/p' "$root/crates/ichido-cli/Cargo.toml" | tr -d '" ' | tr , '\n' | grep -vx console | paste -sd,)
    with=$(build) without=$(build --no-default-features --features "$others")
    awk -v with="$with" -v without="$without" 'BEGIN { printf "with %.1f MB, without %.1f MB: the console is %.2f MB\n", with / 1e6, without / 1e6, (with - without) / 1e6 }'
    exit
fi

rows=${1:-10000000} seconds=${2:-300} orders=${3:-300}
open=("${@:4}")
((${#open[@]} > 0)) || open=(/ '/queue?name=orders' /failed)
programs=$(dirname "$(find /usr/lib/postgresql -name initdb | sort -V | tail -1)")
port=$((20000 + RANDOM % 20000)) console=127.0.0.1:$((40001 + RANDOM % 20000))
as() { if [[ $(id -u) == 0 ]]; then runuser -u postgres -- "$@"; else "$@"; fi; }
sql() { as "$programs/psql" -qAtX -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$port" -U postgres "$@"; }
begun=()
end() {
    ((${#begun[@]} == 0)) || { kill "${begun[@]}" 2>/dev/null || true; wait "${begun[@]}" 2>/dev/null || true; }
    as "$programs/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap end EXIT
chmod 755 "$folder"
[[ $(id -u) != 0 ]] || chown postgres "$folder"
cd "$folder"
as "$programs/initdb" -D "$folder/data" -U postgres -A trust >/dev/null
as "$programs/pg_ctl" -D "$folder/data" -w -l "$folder/log" start >/dev/null \
    -o "-p $port -h 127.0.0.1 -k $folder -c shared_preload_libraries=pg_stat_statements -c max_wal_size=4GB -c shared_buffers=512MB"

# Two roles, so that the server counts the console's statements apart.
sql -c 'create extension pg_stat_statements; create role worker superuser login; create role console superuser login'
sql -c "create table bench_order (id bigint primary key, name text not null, status char(1) not null default '0', process_id uuid)"
config() {
    cat <<END
[database]
url = "postgres://$1@127.0.0.1:$port/postgres"
[queues.orders]
table  = "bench_order"
status = { column = "status", new = "0", done = "1", failed = "2" }
owner  = "process_id"
[queues.mail]
[actions.Ship]
from        = "orders"
concurrency = 4
sql         = ["select pg_sleep(0.005)"]
END
}
config worker >ichido.toml
mkdir look
config console >look/ichido.toml
"$ichido" -q migrate >/dev/null

echo "filling a table with $rows rows" >&2
sql <<END
insert into bench_order select n, 'order ' || n, case when n % 100 < 90 then '1' when n % 100 < 98 then '0' else '2' end,
    case when n % 100 in (95, 96, 97) then '00000000-0000-0000-0000-000000000000'::uuid end from generate_series(1, $rows) n;
insert into ichido_parked (queue, key, state, attempts, due_at, history) select 'orders', n::text,
    case when n % 100 < 98 then 'waiting' else 'dead' end, 1, case when n % 100 < 98 then now() + interval '1 day' end,
    '[{"attempt":1,"at":"2026-11-18 09:00:00","error":"customer ' || n || ' has no address"}]'
    from generate_series(1, $rows) n where n % 100 >= 95;
create index bench_order_claim on bench_order (id) where status = '0' and process_id is null;
create index bench_order_owner on bench_order (process_id) where status = '0' and process_id is not null;
vacuum analyze;
checkpoint;
END

"$ichido" -q run Ship >run.log 2>&1 &
begun+=($!)
# Orders come in as fast as they are done.
feed() {
    local next=$((rows + 1))
    while sleep 1; do
        sql -c "insert into bench_order (id, name) select n, 'new' from generate_series($next, $next + $orders - 1) n" >/dev/null
        next=$((next + orders))
    done
}
feed &
begun+=($!)
(cd look && exec "$ichido" serve --listen "$console" >serve.log 2>&1) &
begun+=($!)
until curl --silent --fail --output /dev/null "http://$console/readyz"; do sleep 0.2; done

pages=(/ /queues '/queue?name=orders' '/queue?name=orders&state=waiting' '/queue?name=orders&state=failed' '/message?id=orders%2F99' /failed
    '/failed?error=customer+99' '/failed/all?verb=retry' /processes /lanes /handlers /settings /audit /send /doctor /api/v1/status '/api/v1/messages?queue=orders' /metrics)
look() { for page in "$@"; do curl --silent --output /dev/null --write-out "%{http_code} %{time_total} $page\n" "http://$console$page"; done; }
each_second() { # FILE
    local file=$1 second pause
    for ((second = 0; second < seconds; second++)); do
        pause=$((SECONDS + 1))
        look "${pages[@]}" >>"$file"
        while ((SECONDS < pause)); do sleep 0.05; done
    done
}
# Without the time that the action sleeps.
spent() { sql -F ' ' -c "select r.rolname, round(sum(s.total_exec_time)::numeric, 1), sum(s.calls) from pg_stat_statements s join pg_roles r on r.oid = s.userid
    where r.rolname in ('worker', 'console') and s.query not ilike '%pg_sleep%' group by 1 order by 1"; }
dearest() { sql -F ' ' -c "select round(s.mean_exec_time::numeric, 2), s.calls, left(regexp_replace(s.query, '\s+', ' ', 'g'), 150) from pg_stat_statements s
    join pg_roles r on r.oid = s.userid where r.rolname = 'console' order by s.total_exec_time desc limit 5"; }

# What the server has spent on both since it was last asked to forget it.
told() { # WHAT
    echo "$rows rows, $seconds s, $1"
    spent | awk -v seconds="$seconds" '{ time[$1] = $2; calls[$1] = $3; all += $2 }
        END { printf "  statement time: console %.1f ms in %d statements, worker %.1f ms in %d\n", time["console"], calls["console"], time["worker"], calls["worker"]
              printf "  the console has %.2f %% of it, and took %.2f %% of the time that passed\n", 100 * time["console"] / all, time["console"] / seconds / 10 }'
    echo "  its dearest statements: mean ms, calls"
    dearest | sed 's/^/  /'
}
forget() { sql -c 'select pg_stat_statements_reset()' >/dev/null; }

look "${pages[@]}" >/dev/null # the first look learns what the tables are
for page in "${open[@]}"; do
    forget
    # It ends by itself after five minutes; a browser opens it again.
    curl --silent --no-buffer --max-time "$seconds" --output events --header 'Accept: text/event-stream' "http://$console$page" || true
    told "$page open; it was told $(grep -c '^event: page' events || true) times by events"
done
forget
seconds=$((seconds < 60 ? seconds : 60))
each_second times
told "every page once a second"
echo "page: looks, p50, p95 and longest in ms, answers that were not 200"
for page in "${pages[@]}"; do
    awk -v page="$page" '$3 == page { print $2 * 1000, $1 }' times | sort -n | awk -v page="$page" '
        { time[NR] = $1; if ($2 != 200) bad++ }
        END { printf "%-36s %4d %7.1f %7.1f %7.1f %d\n", page, NR, time[int((NR + 1) / 2)], time[int(NR * 0.95 + 0.99)], time[NR], bad }'
done
