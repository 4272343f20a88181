-- Who does the chores of a queue, and how far parked messages are tidied. The row without a name is for the whole database.
create table if not exists ichido_chore (
    queue  text collate "C" primary key,
    owner  uuid not null,
    until  timestamptz not null,
    tidied text collate "C" not null default ''
);
