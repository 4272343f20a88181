-- Payments by UUID, with a flag and no failed value; the owner is a UUID too.
create table payment (
    payment_id UUID not null primary key,
    payer varchar(100) not null,
    amount decimal(12, 2) not null,
    processed boolean default false not null,
    locked_by UUID
);
insert into payment (payment_id, payer, amount, processed) values
    ('0b54a2e0-9f0e-4b6a-8f34-111111111111', 'old', 1.50, true),
    ('0b54a2e0-9f0e-4b6a-8f34-222222222222', 'one', 2.50, false),
    ('0b54a2e0-9f0e-4b6a-8f34-333333333333', 'poison', 3.50, false),
    ('f9999999-9f0e-4b6a-8f34-444444444444', 'three', 4.50, false);
