-- Which files belong to which transaction: whoever finds them after a crash asks here whether it was committed.
create table if not exists ichido_files (
    stage    char(36) character set ascii collate ascii_bin not null,
    number   bigint not null,
    revoked  tinyint not null,
    noted_at timestamp(6) not null default current_timestamp(6),
    primary key (stage, number)
) engine = InnoDB default charset = utf8mb4;
