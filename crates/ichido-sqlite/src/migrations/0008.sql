-- How often a message was snoozed since it last failed. A process of the version before does not set it back; a drain then does not wait
-- for the retry of a message that had been snoozed.
alter table ichido_parked add column snoozed integer not null default 0;

-- Runs that ended with a snooze.
alter table ichido_stat add column snoozed integer not null default 0;

-- Parked messages of a queue in the order in which operators read them: by the time of the failure, and those that wait by their due time.
create index ichido_parked_since on ichido_parked (queue, state, parked_at, key);
create index ichido_parked_waiting on ichido_parked (queue, due_at, key) where state = 'waiting';

-- What tells the body that was sent from others: its SHA-256. Null is not compared: rows of the version before, and of senders that write
-- their own.
alter table ichido_mutex add column hash blob;

-- Cancelled messages, for the process that had one claimed: it drops what runs. With `asked` the message is still to be cancelled, by whoever
-- can lock it first; nobody's, where nobody knows which process runs it. It then says who asked.
create table ichido_cancel (
    process  text not null,
    queue    text not null,
    key      text not null,
    asked    integer not null,
    asked_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    by_user  text,
    by_host  text,
    reason   text,
    primary key (process, queue, key)
) strict, without rowid;

-- Who did it, from where and why; rows from before say nothing about it.
alter table ichido_audit add column by_user text;
alter table ichido_audit add column by_host text;
alter table ichido_audit add column reason text;
create index ichido_audit_message on ichido_audit (queue, key);
create index ichido_audit_queue on ichido_audit (queue, id);
