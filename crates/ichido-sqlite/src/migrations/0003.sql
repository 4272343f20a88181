-- What operators ask of request ids.
create table ichido_request (
    request_id text primary key not null,
    stopped    integer not null default 0,
    paused     integer not null default 0,
    changed_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict;

-- Which processes serve which request ids.
create table ichido_process_request (
    process    text not null references ichido_process (id) on delete cascade,
    request_id text not null,
    primary key (process, request_id)
) strict;
create index ichido_process_request_id on ichido_process_request (request_id);
