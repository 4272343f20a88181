-- Postal's queue of mail: rows are deleted when they are delivered.
create table queued_messages (
    id int auto_increment primary key, server_id int, message_id int, domain varchar(255), locked_by varchar(255), locked_at datetime,
    retry_after datetime, attempts int default 0, route_id int, manual tinyint(1) default 0, batch_key varchar(255));
insert into queued_messages (server_id, message_id, domain) values (1, 1, 'example.com');
