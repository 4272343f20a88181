-- Solid Queue: a job is done if it has finished.
create table solid_queue_jobs (
    id integer primary key autoincrement not null, queue_name varchar not null, class_name varchar not null, arguments text,
    priority integer default 0 not null, active_job_id varchar, scheduled_at datetime(6), finished_at datetime(6), concurrency_key varchar,
    created_at datetime(6) not null, updated_at datetime(6) not null);
insert into solid_queue_jobs (queue_name, class_name, finished_at, created_at, updated_at) values
    ('default', 'A', '2026-01-01', '2026-01-01', '2026-01-01'), ('default', 'B', null, '2026-01-01', '2026-01-01');
