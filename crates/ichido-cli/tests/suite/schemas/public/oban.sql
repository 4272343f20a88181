-- Oban: states of its own, in an enum, with a default.
create type oban_job_state as enum ('available', 'scheduled', 'executing', 'retryable', 'completed', 'discarded', 'cancelled');
create table oban_jobs (
    id bigserial primary key, state oban_job_state default 'available' not null, queue text default 'default' not null, worker text not null,
    args jsonb default '{}' not null, errors jsonb[] default array[]::jsonb[] not null, attempt integer default 0 not null, completed_at timestamp);
insert into oban_jobs (state, worker) values ('available', 'W'), ('executing', 'W'), ('completed', 'W');
