-- delayed_job: rows are deleted when they are done; `locked_by` names a host and a process.
create table delayed_jobs (
    id bigserial primary key, priority integer default 0 not null, attempts integer default 0 not null, handler text not null, last_error text,
    run_at timestamp, locked_at timestamp, failed_at timestamp, locked_by varchar, queue varchar, created_at timestamp, updated_at timestamp);
insert into delayed_jobs (handler, locked_by) values ('--- !ruby', 'host:a pid:1'), ('--- !ruby', null);
