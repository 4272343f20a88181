-- How many messages of the queue a process may have begun at once; a process of the version before does not say. What a process runs
-- is in its lock file: a heartbeat writes nothing into the database.
alter table ichido_process_queue add column slots integer;
