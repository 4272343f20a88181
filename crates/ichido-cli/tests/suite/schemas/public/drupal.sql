-- Drupal's queue: `expire` is when a claim ends, 0 if nobody has one.
create table queue (
    item_id int unsigned auto_increment primary key, name varchar(255) default '' not null, data longblob, expire int default 0 not null,
    created int default 0 not null);
insert into queue (name) values ('aggregator_feeds');
