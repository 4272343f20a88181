-- Which files belong to which transaction: whoever finds them after a crash asks here whether it was committed.
create table ichido_files (
    name     varchar(64) character set ascii collate ascii_bin primary key,
    revoked  tinyint not null,
    noted_at timestamp(6) not null default current_timestamp(6)
) engine = InnoDB default charset = utf8mb4;
