-- WooCommerce's orders: every status begins with `wc-`, and `wc-pending` waits for its payment.
create table wp_wc_orders (
    id bigint unsigned primary key, status varchar(20), currency varchar(10), type varchar(20), total_amount decimal(26, 8),
    customer_id bigint unsigned, billing_email varchar(320), date_created_gmt datetime, payment_method varchar(100));
insert into wp_wc_orders (id, status) values (1, 'wc-pending'), (2, 'wc-processing'), (3, 'wc-completed'), (4, 'wc-on-hold');
