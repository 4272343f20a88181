-- Processes. A process is alive while it holds the OS lock on its lock file; `running` names the suspect that it runs now.
create table ichido_process (
    id           text primary key not null,
    request_id   text not null,
    host         text not null,
    pid          integer not null,
    version      text not null,
    started_at   text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    running      text
) strict;

-- What a process serves, so that only a process that knows a dead one's queues frees them.
create table ichido_process_queue (
    process text not null,
    queue   text not null,
    place   text not null,
    primary key (process, queue)
) strict, without rowid;

-- The messages of managed queues. A row that is there is unprocessed; done rows are deleted. Ids are never used again.
create table ichido_message (
    id      integer primary key autoincrement,
    queue   text not null,
    owner   text,
    payload text not null,
    headers text not null default '{}',
    sent_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict;
create index ichido_message_claim on ichido_message (queue, id) where owner is null;
create index ichido_message_owner on ichido_message (owner) where owner is not null;

-- What is known about messages that have failed; keys are compared as bytes.
create table ichido_parked (
    queue     text not null,
    key       text not null,
    state     text not null check (state in ('waiting', 'released', 'dead', 'discarded')),
    attempts  integer not null,
    suspect   integer not null default 0,
    due_at    text,
    parked_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    history   text not null default '[]',
    primary key (queue, key)
) strict, without rowid;
create index ichido_parked_due on ichido_parked (due_at) where state = 'waiting';

-- What operators did by hand.
create table ichido_audit (
    id     integer primary key autoincrement,
    at     text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    verb   text not null,
    queue  text not null,
    key    text not null,
    detail text not null
) strict;

-- The longest time that a message of a queue has taken.
create table ichido_longest (
    queue      text primary key not null,
    longest_us integer not null,
    at         text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict, without rowid;
