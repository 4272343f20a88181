-- Magento's own queue: 2 is new, 3 in progress, 4 complete, 5 to be tried again, 6 an error.
create table queue_message_status (
    id bigint unsigned auto_increment primary key, queue_id int unsigned not null, message_id bigint unsigned not null,
    updated_at timestamp default current_timestamp, status smallint unsigned not null, number_of_trials smallint unsigned default 0 not null);
insert into queue_message_status (queue_id, message_id, status) values (1, 1, 2), (1, 2, 3), (1, 3, 4), (1, 4, 6);
