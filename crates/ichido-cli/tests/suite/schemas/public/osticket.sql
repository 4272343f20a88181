-- osTicket: the status is a row of another table; 1 is open, 2 resolved, 3 closed, and 0 is nothing.
create table ost_ticket (
    ticket_id int unsigned auto_increment primary key, number varchar(20), user_id int unsigned default 0 not null,
    status_id int unsigned default 0 not null, dept_id int unsigned default 0 not null, staff_id int unsigned default 0 not null,
    flags int unsigned default 0 not null, isoverdue tinyint(1) unsigned default 0 not null,
    isanswered tinyint(1) unsigned default 0 not null, closed datetime, created datetime);
insert into ost_ticket (number, status_id) values ('1', 1), ('2', 1), ('3', 2), ('4', 3);
