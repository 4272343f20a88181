-- Processes and their sign of life. `running` names the suspect that the process runs now.
create table if not exists ichido_process (
    id           char(36) character set ascii collate ascii_bin primary key,
    request_id   varchar(255) not null,
    host         varchar(255) not null,
    pid          bigint not null,
    version      varchar(32) not null,
    started_at   datetime(6) not null,
    heartbeat_at datetime(6) not null,
    lease_us     bigint not null,
    running      varbinary(1200)
) engine = InnoDB default charset = utf8mb4;

-- What a process serves, so that only a process that knows a dead one's queues frees them.
create table if not exists ichido_process_queue (
    process char(36) character set ascii collate ascii_bin not null,
    queue   varchar(64) character set ascii collate ascii_bin not null,
    place   varchar(2000) not null,
    primary key (process, queue)
) engine = InnoDB default charset = utf8mb4;

-- The messages of managed queues. A row that is there is unprocessed; done rows are deleted.
create table if not exists ichido_message (
    id      bigint auto_increment primary key,
    queue   varchar(64) character set ascii collate ascii_bin not null,
    owner   char(36) character set ascii collate ascii_bin,
    payload longtext character set utf8mb4 collate utf8mb4_bin not null,
    headers longtext character set utf8mb4 collate utf8mb4_bin,
    sent_at timestamp(6) not null default current_timestamp(6),
    key ichido_message_claim (queue, owner, id),
    key ichido_message_owner (owner)
) engine = InnoDB default charset = utf8mb4;

-- What is known about messages that have failed; keys are compared as bytes.
create table if not exists ichido_parked (
    queue     varchar(64) character set ascii collate ascii_bin not null,
    `key`     varbinary(1000) not null,
    state     varchar(10) character set ascii collate ascii_bin not null,
    attempts  int not null,
    suspect   tinyint not null default 0,
    due_at    datetime(6),
    parked_at datetime(6) not null,
    history   longtext character set utf8mb4 collate utf8mb4_bin not null,
    primary key (queue, `key`),
    key ichido_parked_due (state, due_at)
) engine = InnoDB default charset = utf8mb4;

-- What operators did by hand.
create table if not exists ichido_audit (
    id     bigint auto_increment primary key,
    at     timestamp(6) not null default current_timestamp(6),
    verb   varchar(20) not null,
    queue  varchar(64) not null,
    `key`  varbinary(1000) not null,
    detail longtext not null
) engine = InnoDB default charset = utf8mb4;

-- The longest time that a message of a queue has taken.
create table if not exists ichido_longest (
    queue      varchar(64) character set ascii collate ascii_bin primary key,
    longest_us bigint not null,
    at         timestamp(6) not null default current_timestamp(6)
) engine = InnoDB default charset = utf8mb4;
