-- Which files belong to which transaction: whoever finds them after a crash asks here whether it was committed.
create table if not exists ichido_files (
    stage    uuid not null,
    number   bigint not null,
    revoked  boolean not null,
    noted_at timestamptz not null default now(),
    primary key (stage, number)
);
