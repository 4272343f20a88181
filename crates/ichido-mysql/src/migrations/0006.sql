-- The name of this database, which messages at brokers carry as the place that they come from.
create table if not exists ichido_origin (
    id char(36) character set ascii collate ascii_bin primary key
) engine = InnoDB default charset = utf8mb4;
insert into ichido_origin (id) select uuid() from (select 1) one where not exists (select 1 from ichido_origin);

-- A row is there while a message that a broker carries is not done. Consumers lock it, or own it; nobody else touches it.
create table if not exists ichido_mutex (
    id      varchar(255) character set utf8mb4 collate utf8mb4_bin primary key,
    queue   varchar(64) character set ascii collate ascii_bin not null,
    owner   char(36) character set ascii collate ascii_bin,
    sent_at timestamp(6) not null default current_timestamp(6),
    key ichido_mutex_queue (queue, owner)
) engine = InnoDB default charset = utf8mb4;

-- What is to be published after its transaction has committed. With a mutex it stays until the message is done, so that it can be
-- published again; without one it goes when it has arrived.
create table if not exists ichido_outbox (
    number       bigint auto_increment primary key,
    id           varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    mutex        varchar(255) character set utf8mb4 collate utf8mb4_bin,
    queue        varchar(64) character set ascii collate ascii_bin not null,
    exchange     varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    routing_key  varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    headers      longtext character set utf8mb4 collate utf8mb4_bin not null,
    payload      longblob not null,
    created_at   datetime(6) not null,
    due_at       datetime(6),
    edition      bigint not null default 0,
    published_at datetime(6),
    attempts     int not null default 0,
    error        longtext character set utf8mb4 collate utf8mb4_bin,
    unique key ichido_outbox_mutex (mutex),
    key ichido_outbox_unsent (queue, published_at, number),
    foreign key (mutex) references ichido_mutex (id) on delete cascade
) engine = InnoDB default charset = utf8mb4;

-- What is done, where messages come from foreign senders or to several queues; ids are compared as bytes. It is forgotten after a
-- while. Without `done_at` it is not done: an action has ended its transaction.
create table if not exists ichido_inbox (
    id      varbinary(255) primary key,
    queue   varchar(64) character set ascii collate ascii_bin not null,
    hash    varbinary(32) not null,
    done_at datetime(6),
    key ichido_inbox_done_at (done_at)
) engine = InnoDB default charset = utf8mb4;

-- Whose turn it is to publish for a queue.
create table if not exists ichido_relay (
    queue   varchar(64) character set ascii collate ascii_bin primary key,
    owner   char(36) character set ascii collate ascii_bin not null,
    `until` datetime(6) not null
) engine = InnoDB default charset = utf8mb4;

-- What brokers handed out in vain: messages that were done already, and messages that somebody else was at.
-- Skipped if this column is there: ichido_stat.duplicates
alter table ichido_stat
    add column duplicates bigint not null default 0,
    add column found_busy bigint not null default 0;
