-- Which files belong to which transaction: whoever finds them after a crash asks here whether it was committed.
create table ichido_files (
    name     text collate "C" primary key,
    revoked  boolean not null,
    noted_at timestamptz not null default now()
);
