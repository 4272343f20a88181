-- Que: a job is done if it has finished, and has failed if it has expired.
create table que_jobs (
    priority smallint default 100 not null, run_at timestamptz default now() not null, id bigserial primary key, job_class text not null,
    error_count integer default 0 not null, last_error_message text, queue text default 'default' not null, last_error_backtrace text,
    finished_at timestamptz, expired_at timestamptz, args jsonb default '[]' not null, data jsonb default '{}' not null);
insert into que_jobs (job_class, finished_at) values ('A', now()), ('B', null);
