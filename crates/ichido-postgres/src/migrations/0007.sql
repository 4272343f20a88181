-- Who does the chores of a queue, and how far parked messages are tidied. The row without a name is for the whole database.
create table if not exists ichido_chore (
    queue  text collate "C" primary key,
    owner  uuid not null,
    until  timestamptz not null,
    tidied text collate "C" not null default ''
);

-- What a process runs and for how long, as of its last heartbeat.
alter table ichido_process add column if not exists runs text;

-- How many messages of the queue a process may have begun at once; a process of the version before does not say.
alter table ichido_process_queue add column if not exists slots bigint;
