-- OpenCart's orders: 0 is an order that was never confirmed, 1 pending, 2 processing, 5 complete.
create table oc_order (
    order_id int auto_increment primary key, invoice_no int default 0 not null, store_id int default 0 not null,
    order_status_id int default 0 not null, total decimal(15, 4) default 0 not null, date_added datetime);
insert into oc_order (order_status_id) values (0), (1), (2), (5), (5);
