-- What each process has counted, per minute and queue. Histograms are text, `bucket:count` with spaces between.
create table ichido_stat (
    minute       integer not null,
    queue        text not null,
    level        text not null,
    process      text not null,
    lanes        text not null,
    levels_above integer not null,
    slots        integer not null,
    started      integer not null,
    done         integer not null,
    failed       integer not null,
    retried      integer not null,
    overtaken    integer not null,
    busy_us      integer not null,
    waiting      text not null,
    running      text not null,
    primary key (minute, queue, level, process)
) strict, without rowid;
