-- Invoices by a decimal number; the states are in a constraint, and an index that serves nobody is there.
create table invoice (
    invoice_no decimal(18, 4) not null,
    customer varchar(60) not null,
    status varchar(12) not null check (status in ('NEW', 'DONE', 'ERROR', 'CANCELLED')),
    owner varchar(64),
    constraint invoice_pk primary key (invoice_no)
);
create index invoice_claim on invoice (customer);
insert into invoice (invoice_no, customer, status, owner) values
    (1.0000, 'gone', 'CANCELLED', 'anne'),
    (123456789012.5001, 'one', 'NEW', null),
    (123456789012.5002, 'poison', 'NEW', null),
    (0.0001, 'three', 'NEW', null),
    (-7, 'four', 'NEW', null);
