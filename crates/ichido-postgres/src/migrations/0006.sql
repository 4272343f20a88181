-- The name of this database, which messages at brokers carry as the place that they come from.
create table if not exists ichido_origin (
    id text collate "C" primary key
);
insert into ichido_origin (id) select gen_random_uuid()::text where not exists (select 1 from ichido_origin);

-- A row is there while a message that a broker carries is not done. Consumers lock it, or own it; nobody else touches it.
create table if not exists ichido_mutex (
    id      varchar(255) collate "C" primary key,
    queue   text collate "C" not null,
    owner   uuid,
    sent_at timestamptz not null default now()
);
create index if not exists ichido_mutex_queue on ichido_mutex (queue, owner);

-- What is to be published after its transaction has committed. With a mutex it stays until the message is done, so that it can be
-- published again; without one it goes when it has arrived.
create table if not exists ichido_outbox (
    number       bigint generated always as identity primary key,
    id           varchar(255) collate "C" not null,
    mutex        varchar(255) collate "C" unique references ichido_mutex (id) on delete cascade,
    queue        text collate "C" not null,
    exchange     text not null,
    routing_key  text not null,
    headers      text not null default '{}',
    payload      bytea not null,
    created_at   timestamptz not null default now(),
    due_at       timestamptz default now(),
    edition      bigint not null default 0,
    published_at timestamptz,
    attempts     integer not null default 0,
    error        text
);
create index if not exists ichido_outbox_unsent on ichido_outbox (queue, number) where published_at is null;

-- What is done, where messages come from foreign senders or to several queues. It is forgotten after a while. Without `done_at` it
-- is not done: an action has ended its transaction.
create table if not exists ichido_inbox (
    id      varchar(255) collate "C" primary key,
    queue   text collate "C" not null,
    hash    bytea not null,
    done_at timestamptz
);
create index if not exists ichido_inbox_done_at on ichido_inbox (done_at);

-- Whose turn it is to publish for a queue.
create table if not exists ichido_relay (
    queue text collate "C" primary key,
    owner uuid not null,
    until timestamptz not null
);

-- What brokers handed out in vain: messages that were done already, and messages that somebody else was at.
alter table ichido_stat
    add column if not exists duplicates bigint not null default 0,
    add column if not exists found_busy bigint not null default 0;
