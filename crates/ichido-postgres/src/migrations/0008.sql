-- How often a message was snoozed since it last failed. A process of the version before does not set it back; a drain then does not wait
-- for the retry of a message that had been snoozed.
alter table ichido_parked add column if not exists snoozed bigint not null default 0;

-- Runs that ended with a snooze.
alter table ichido_stat add column if not exists snoozed bigint not null default 0;

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
