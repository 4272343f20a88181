-- Who does the chores of a queue, and how far parked messages are tidied. The row without a name is for the whole database.
create table if not exists ichido_chore (
    queue   varchar(64) character set ascii collate ascii_bin primary key,
    owner   char(36) character set ascii collate ascii_bin not null,
    `until` datetime(6) not null,
    tidied  varbinary(1000) not null default ''
) engine = InnoDB default charset = utf8mb4;
