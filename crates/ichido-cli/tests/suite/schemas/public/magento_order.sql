-- Magento's orders have a state, which the program knows, and a status, which shops define.
create table sales_order (
    entity_id int unsigned auto_increment primary key, state varchar(32), status varchar(32), coupon_code varchar(255),
    store_id smallint unsigned, customer_id int unsigned, grand_total decimal(20, 4), email_sent smallint unsigned);
insert into sales_order (state, status) values
    ('new', 'pending'), ('processing', 'processing'), ('complete', 'complete'), ('closed', 'closed'), ('canceled', 'canceled');
