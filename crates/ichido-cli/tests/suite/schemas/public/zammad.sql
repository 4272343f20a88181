-- Zammad: a state that is a row of another table, and a state of approval beside it; the owner is an agent.
create table tickets (
    id serial primary key, group_id integer not null, priority_id integer not null, state_id integer not null, number varchar(60) not null,
    title varchar(250) not null, owner_id integer not null, customer_id integer not null, close_at timestamp, approval_state varchar(100));
insert into tickets (group_id, priority_id, state_id, number, title, owner_id, customer_id, approval_state) values
    (1, 1, 1, '1', 'a', 1, 1, 'pending'), (1, 1, 2, '2', 'b', 1, 1, null), (1, 1, 4, '3', 'c', 1, 1, 'done');
