-- Saleor's orders: a word of its own for what is to be done.
create table order_order (
    id uuid default gen_random_uuid() primary key, created_at timestamptz default now(), status varchar(32) default 'unfulfilled' not null,
    user_email varchar(254) not null, total_gross_amount numeric(20, 3) not null, metadata jsonb);
insert into order_order (status, user_email, total_gross_amount) values
    ('draft', 'a', 1), ('unfulfilled', 'b', 1), ('fulfilled', 'c', 1), ('canceled', 'd', 1);
