-- What each process has counted, per minute and queue. Histograms are text, `bucket:count` with spaces between.
create table if not exists ichido_stat (
    minute       bigint not null,
    queue        text collate "C" not null,
    level        text collate "C" not null,
    process      uuid not null,
    lanes        text collate "C" not null,
    levels_above bigint not null,
    slots        bigint not null,
    started      bigint not null,
    done         bigint not null,
    failed       bigint not null,
    retried      bigint not null,
    overtaken    bigint not null,
    busy_us      bigint not null,
    waiting      text not null,
    running      text not null,
    primary key (minute, queue, level, process)
);
