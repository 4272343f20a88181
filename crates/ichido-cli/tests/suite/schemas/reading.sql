-- Readings of devices: a key of two columns, one of them a time with fractions, and an enum.
[postgres] create type reading_state as enum ('received', 'processing', 'processed', 'rejected');
[postgres] create table device_reading (device varchar(20) not null, read_at timestamp(6) not null, reading varchar(50) not null, state reading_state not null default 'received', primary key (device, read_at));
[mariadb] create table device_reading (device varchar(20) not null, read_at datetime(6) not null, reading varchar(50) not null, state enum ('received', 'processing', 'processed', 'rejected') not null default 'received', primary key (device, read_at));
[sqlite] create table device_reading (device varchar(20) not null, read_at timestamp not null, reading varchar(50) not null, state varchar(20) not null default 'received' check (state in ('received', 'processing', 'processed', 'rejected')), primary key (device, read_at));
insert into device_reading (device, read_at, reading, state) values
    ('d/1', '2026-01-01 00:00:00.000001', 'old', 'processed'),
    ('d/1', '2026-01-01 00:00:00.123456', 'one', 'received'),
    ('d/1', '2026-01-01 00:00:00.123457', 'poison', 'received'),
    ('d%2', '2026-01-01 00:00:00.123456', 'three', 'received');
