-- What operators ask of request ids, compared as bytes. Who must serve one alone locks its row while it registers.
create table if not exists ichido_request (
    request_id varbinary(1020) primary key,
    stopped    tinyint not null default 0,
    paused     tinyint not null default 0,
    changed_at timestamp(6) not null default current_timestamp(6)
) engine = InnoDB default charset = utf8mb4;

-- Which processes serve which request ids.
create table if not exists ichido_process_request (
    process    char(36) character set ascii collate ascii_bin not null,
    request_id varbinary(1020) not null,
    primary key (process, request_id),
    key ichido_process_request_id (request_id),
    foreign key (process) references ichido_process (id) on delete cascade
) engine = InnoDB default charset = utf8mb4;
