-- pg-boss: an enum in order, with a default that may mean anything.
create type job_state as enum ('created', 'retry', 'active', 'completed', 'cancelled', 'failed');
create table pgboss_job (
    id uuid default gen_random_uuid() primary key, name text not null, priority integer default 0 not null, data jsonb,
    state job_state default 'created' not null, retry_limit integer default 0 not null, start_after timestamptz default now() not null,
    created_on timestamptz default now() not null, completed_on timestamptz, output jsonb);
insert into pgboss_job (name, state) values ('a', 'created'), ('a', 'active'), ('a', 'completed');
