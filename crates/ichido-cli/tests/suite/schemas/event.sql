-- Events by time of day and zone; the status is an INT with codes of its own, and so needs to be told.
[postgres] create table event_log (occurred timestamptz(6) primary key, what varchar(40) not null, state int not null);
[mariadb] create table event_log (occurred timestamp(6) not null default current_timestamp(6) primary key, what varchar(40) not null, state int not null);
[sqlite] create table event_log (occurred timestamp primary key, what varchar(40) not null, state int not null);
insert into event_log (occurred, what, state) values
    ('2026-03-01 10:00:00.000001', 'old', 20), ('2026-03-01 10:00:00.5', 'one', 10), ('2026-03-01 10:00:01', 'poison', 10), ('2026-10-25 02:30:00.999999', 'three', 10);
