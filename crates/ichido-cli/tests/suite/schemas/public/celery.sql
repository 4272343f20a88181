-- django-celery-results: words that say it; `worker` is a host.
create table django_celery_results_taskresult (
    id serial primary key, task_id varchar(255) not null unique, task_name varchar(255), status varchar(50) not null, worker varchar(100),
    content_type varchar(128) not null, result text, date_created timestamptz not null, date_done timestamptz not null, traceback text);
insert into django_celery_results_taskresult (task_id, status, worker, content_type, date_created, date_done) values
    ('a', 'PENDING', null, 'json', now(), now()), ('b', 'SUCCESS', 'celery@host', 'json', now(), now()), ('c', 'FAILURE', 'celery@host', 'json', now(), now());
