-- What each process has counted, per minute and queue. Histograms are text, `bucket:count` with spaces between.
create table if not exists ichido_stat (
    minute       bigint not null,
    queue        varchar(64) character set ascii collate ascii_bin not null,
    level        varchar(64) character set ascii collate ascii_bin not null,
    process      char(36) character set ascii collate ascii_bin not null,
    lanes        varchar(64) character set ascii collate ascii_bin not null,
    levels_above bigint not null,
    slots        bigint not null,
    started      bigint not null,
    done         bigint not null,
    failed       bigint not null,
    retried      bigint not null,
    overtaken    bigint not null,
    busy_us      bigint not null,
    waiting      text character set ascii not null,
    running      text character set ascii not null,
    primary key (minute, queue, level, process)
) engine = InnoDB default charset = utf8mb4;
