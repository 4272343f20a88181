-- Redmine: the status is a row of another table; `done_ratio` says how much is done.
create table issues (
    id integer primary key autoincrement not null, tracker_id integer not null, project_id integer not null, subject varchar default '' not null,
    description text, due_date date, status_id integer not null, assigned_to_id integer, priority_id integer not null, author_id integer not null,
    done_ratio integer default 0 not null, is_private boolean default 0 not null, closed_on datetime);
insert into issues (tracker_id, project_id, status_id, priority_id, author_id, done_ratio) values (1, 1, 1, 1, 1, 0), (1, 1, 2, 1, 1, 50), (1, 1, 5, 1, 1, 100);
