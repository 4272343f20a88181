-- What a process runs and for how long, as of its last heartbeat.
alter table ichido_process add column if not exists runs text;

-- How many messages of the queue a process may have begun at once; a process of the version before does not say.
alter table ichido_process_queue add column if not exists slots bigint;
