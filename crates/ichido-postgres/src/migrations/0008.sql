-- How often a message was snoozed since it last failed. A process of the version before does not set it back; a drain then does not wait
-- for the retry of a message that had been snoozed.
alter table ichido_parked add column if not exists snoozed bigint not null default 0;

-- Runs that ended with a snooze.
alter table ichido_stat add column if not exists snoozed bigint not null default 0;

-- Parked messages of a queue in the order in which operators read them: by the time of the failure, and those that wait by their due time.
create index if not exists ichido_parked_since on ichido_parked (queue, state, parked_at, key);
create index if not exists ichido_parked_waiting on ichido_parked (queue, due_at, key) where state = 'waiting';

-- Mutex rows of a queue that nobody has, in the order of their ids; the index before this one could find them, but in no order.
create index if not exists ichido_mutex_owner on ichido_mutex (queue, owner, id);
drop index if exists ichido_mutex_queue;

-- What tells the body that was sent from others: its SHA-256. Null is not compared: rows of the version before, and of senders that write
-- their own.
alter table ichido_mutex add column if not exists hash bytea;

-- Cancelled messages, for the process that had one claimed: it drops what runs. With `asked` the message is still to be cancelled, by whoever
-- can lock it first; nobody's, where nobody knows which process runs it. It then says who asked.
create table if not exists ichido_cancel (
    process  uuid not null,
    queue    text collate "C" not null,
    key      text collate "C" not null,
    asked    boolean not null,
    asked_at timestamptz not null default now(),
    by_user  text,
    by_host  text,
    reason   text,
    primary key (process, queue, key)
);

-- Who did it, from where and why; rows from before say nothing about it.
alter table ichido_audit
    add column if not exists by_user text,
    add column if not exists by_host text,
    add column if not exists reason  text;
create index if not exists ichido_audit_message on ichido_audit (queue, key);
create index if not exists ichido_audit_queue on ichido_audit (queue, id);
