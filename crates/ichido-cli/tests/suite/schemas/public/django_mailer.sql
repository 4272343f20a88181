-- django-mailer: a row is deleted when its mail is sent; the priority is a letter.
create table mailer_message (
    id integer primary key autoincrement not null, message_data text not null, when_added datetime not null, priority smallint not null, retry_count integer not null);
insert into mailer_message (message_data, when_added, priority, retry_count) values ('', '2026-01-01', 2, 0);
