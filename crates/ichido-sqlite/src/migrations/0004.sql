-- Which files belong to which transaction: whoever finds them after a crash asks here whether it was committed.
create table ichido_files (
    stage    text not null,
    number   integer not null,
    revoked  integer not null,
    noted_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    primary key (stage, number)
) strict;
