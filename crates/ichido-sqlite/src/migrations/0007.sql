-- Who does the chores of a queue, and how far parked messages are tidied. The row without a name is for the whole database.
create table ichido_chore (
    queue  text primary key not null,
    owner  text not null,
    until  text not null,
    tidied text not null default ''
) strict, without rowid;
