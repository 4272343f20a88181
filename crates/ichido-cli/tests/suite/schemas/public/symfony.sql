-- Symfony's Messenger: `delivered_at` says that somebody has a row, and rows are deleted when they are done.
create table messenger_messages (
    id bigserial primary key, body text not null, headers text not null, queue_name varchar(190) not null,
    created_at timestamp not null, available_at timestamp not null, delivered_at timestamp);
insert into messenger_messages (body, headers, queue_name, created_at, available_at) values ('{}', '[]', 'default', now(), now());
