-- Who does the chores of a queue, and how far parked messages are tidied. The row without a name is for the whole database.
create table ichido_chore (
    queue  text primary key not null,
    owner  text not null,
    until  text not null,
    tidied text not null default ''
) strict, without rowid;

-- How many messages of the queue a process may have begun at once; a process of the version before does not say. What a process runs
-- is in its lock file: a heartbeat writes nothing into the database.
alter table ichido_process_queue add column slots integer;
