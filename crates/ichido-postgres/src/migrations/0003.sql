-- What operators ask of request ids. Who must serve one alone locks its row while it registers.
create table if not exists ichido_request (
    request_id text collate "C" primary key,
    stopped    boolean not null default false,
    paused     boolean not null default false,
    changed_at timestamptz not null default now()
);

-- Which processes serve which request ids.
create table if not exists ichido_process_request (
    process    uuid not null references ichido_process on delete cascade,
    request_id text collate "C" not null,
    primary key (process, request_id)
);
create index if not exists ichido_process_request_id on ichido_process_request (request_id);
