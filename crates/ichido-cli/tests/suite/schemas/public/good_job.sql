-- good_job: a job is done if it has finished; no word says so.
create table good_jobs (
    id uuid default gen_random_uuid() primary key, queue_name text, priority integer, serialized_params jsonb, scheduled_at timestamp,
    performed_at timestamp, finished_at timestamp, error text, created_at timestamp not null, updated_at timestamp not null,
    active_job_id uuid, job_class text, executions_count integer, locked_by_id uuid, locked_at timestamp);
insert into good_jobs (queue_name, finished_at, created_at, updated_at) values ('default', now(), now(), now()), ('default', null, now(), now());
