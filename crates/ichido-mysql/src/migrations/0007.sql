-- What a process runs and for how long, as of its last heartbeat.
-- Skipped if this column is there: ichido_process.runs
alter table ichido_process add column runs mediumtext character set utf8mb4 collate utf8mb4_bin;

-- How many messages of the queue a process may have begun at once; a process of the version before does not say.
-- Skipped if this column is there: ichido_process_queue.slots
alter table ichido_process_queue add column slots bigint;
