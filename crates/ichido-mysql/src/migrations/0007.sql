-- Who does the chores of a queue, and how far parked messages are tidied. The row without a name is for the whole database.
create table if not exists ichido_chore (
    queue   varchar(64) character set ascii collate ascii_bin primary key,
    owner   char(36) character set ascii collate ascii_bin not null,
    `until` datetime(6) not null,
    tidied  varbinary(1000) not null default ''
) engine = InnoDB default charset = utf8mb4;

-- What a process runs and for how long, as of its last heartbeat.
-- Skipped if this column is there: ichido_process.runs
alter table ichido_process add column runs mediumtext character set utf8mb4 collate utf8mb4_bin;

-- How many messages of the queue a process may have begun at once; a process of the version before does not say.
-- Skipped if this column is there: ichido_process_queue.slots
alter table ichido_process_queue add column slots bigint;
