-- Laravel's jobs: `reserved_at` says that somebody has a row, and rows are deleted when they are done.
create table jobs (
    id integer primary key autoincrement not null, queue varchar not null, payload text not null, attempts integer not null, reserved_at integer,
    available_at integer not null, created_at integer not null);
insert into jobs (queue, payload, attempts, available_at, created_at) values ('default', '{}', 0, 1, 1);
