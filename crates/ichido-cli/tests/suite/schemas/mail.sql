-- A mail outbox: the server counts the key, the status is a SMALLINT that begins as 0, nothing says who has a row.
[postgres] create table mail_request (mail_id bigint generated always as identity primary key, address varchar(200) not null, subject text, send_status smallint default 0 not null, requested_at timestamp default now());
[mariadb] create table mail_request (mail_id bigint unsigned auto_increment primary key, address varchar(200) not null, subject text, send_status smallint default 0 not null, requested_at timestamp default now());
[sqlite] create table mail_request (mail_id integer primary key autoincrement, address varchar(200) not null, subject text, send_status smallint default 0 not null, requested_at timestamp default current_timestamp);
insert into mail_request (address, subject, send_status) values
    ('old@example.com', 'x', 1), ('odd@example.com', 'x', 9), ('a@example.com', 'x', 0), ('poison', 'x', 0), ('b@example.com', null, 0);
