-- The name of this database, which messages at brokers carry as the place that they come from.
create table ichido_origin (
    id text primary key not null
) strict, without rowid;
insert into ichido_origin (id) values (lower(format('%s-%s-4%s-8%s-%s', hex(randomblob(4)), hex(randomblob(2)),
    substr(hex(randomblob(2)), 2), substr(hex(randomblob(2)), 2), hex(randomblob(6)))));

-- A row is there while a message that a broker carries is not done. Consumers own it; nobody else touches it.
create table ichido_mutex (
    id      text primary key not null,
    queue   text not null,
    owner   text,
    sent_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict, without rowid;
create index ichido_mutex_queue on ichido_mutex (queue, owner);

-- What is to be published after its transaction has committed. With a mutex it stays until the message is done, so that it can be
-- published again; without one it goes when it has arrived.
create table ichido_outbox (
    number       integer primary key autoincrement,
    id           text not null,
    mutex        text unique references ichido_mutex (id) on delete cascade,
    queue        text not null,
    exchange     text not null,
    routing_key  text not null,
    headers      text not null default '{}',
    payload      blob not null,
    created_at   text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    due_at       text default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    edition      integer not null default 0,
    published_at text,
    attempts     integer not null default 0,
    error        text
) strict;
create index ichido_outbox_unsent on ichido_outbox (queue, number) where published_at is null;

-- What is done, where messages come from foreign senders or to several queues. It is forgotten after a while. Without `done_at`
-- its transaction is at work.
create table ichido_inbox (
    id      text primary key not null,
    queue   text not null,
    hash    blob not null,
    done_at text
) strict, without rowid;
create index ichido_inbox_done_at on ichido_inbox (done_at) where done_at is not null;

-- Whose turn it is to publish for a queue.
create table ichido_relay (
    queue text primary key not null,
    owner text not null,
    until text not null
) strict, without rowid;

-- What brokers handed out in vain: messages that were done already, and messages that somebody else was at.
alter table ichido_stat add column duplicates integer not null default 0;
alter table ichido_stat add column found_busy integer not null default 0;
