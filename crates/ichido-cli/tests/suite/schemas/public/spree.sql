-- Spree's orders begin as a cart, which nobody has ordered yet; payment and shipment have states of their own.
create table spree_orders (
    id bigserial primary key, number varchar(32), item_total numeric(10, 2) default 0 not null, state varchar, payment_state varchar,
    shipment_state varchar, email varchar, completed_at timestamp, considered_risky boolean default false);
insert into spree_orders (number, state, payment_state) values ('R1', 'cart', null), ('R2', 'payment', null), ('R3', 'complete', 'paid'), ('R4', 'canceled', 'void');
