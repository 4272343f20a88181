-- PrestaShop's orders: the state is a row of another table, and which one means what is up to the shop.
create table ps_orders (
    id_order int unsigned auto_increment primary key, reference varchar(9), id_customer int unsigned not null,
    current_state int unsigned not null, payment varchar(255) not null, valid int unsigned default 0 not null, date_add datetime);
insert into ps_orders (id_customer, current_state, payment) values (1, 1, 'x'), (1, 2, 'x'), (1, 4, 'x'), (1, 5, 'x'), (1, 6, 'x');
