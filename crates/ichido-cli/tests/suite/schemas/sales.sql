-- A table in a schema of its own; on MariaDB that is another database of the same server.
create table SCHEMA.order_request (id integer primary key, item varchar(40) not null, status char(1) default '0' not null);
insert into SCHEMA.order_request (id, item, status) values (1, 'old', '1'), (2, 'one', '0'), (3, 'poison', '0');
