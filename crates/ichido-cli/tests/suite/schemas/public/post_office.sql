-- django-post_office: 0 is sent, 1 failed, 2 queued, 3 to be tried again: the classic code would send all over again what was sent.
create table post_office_email (
    id serial primary key, from_email varchar(254) not null, "to" text not null, subject varchar(989) not null, message text not null,
    status smallint, priority smallint, created timestamptz not null, scheduled_time timestamptz, expires_at timestamptz, number_of_retries integer);
insert into post_office_email (from_email, "to", subject, message, status, created) values
    ('a', 'b', 'c', 'd', 0, now()), ('a', 'b', 'c', 'd', 0, now()), ('a', 'b', 'c', 'd', 1, now()), ('a', 'b', 'c', 'd', 2, now());
