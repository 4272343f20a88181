-- OTRS: states, locks and priorities are rows of other tables.
create table ticket (
    id bigint auto_increment primary key, tn varchar(50) not null unique, title varchar(255), queue_id int not null,
    ticket_lock_id smallint not null, user_id int not null, responsible_user_id int not null, ticket_priority_id smallint not null,
    ticket_state_id smallint not null, archive_flag smallint default 0 not null, create_time datetime not null);
insert into ticket (tn, queue_id, ticket_lock_id, user_id, responsible_user_id, ticket_priority_id, ticket_state_id, create_time) values
    ('1', 1, 1, 1, 1, 3, 1, now()), ('2', 1, 1, 1, 1, 3, 2, now()), ('3', 1, 1, 1, 1, 3, 4, now());
