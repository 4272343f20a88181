-- WooCommerce's Action Scheduler: words in a column without a default; a claim is a number, 0 if there is none.
create table wp_actionscheduler_actions (
    action_id bigint unsigned auto_increment primary key, hook varchar(191) not null, status varchar(20) not null,
    scheduled_date_gmt datetime, priority tinyint unsigned default 10 not null, args varchar(191),
    group_id bigint unsigned default 0 not null, attempts int default 0 not null, claim_id bigint unsigned default 0 not null);
insert into wp_actionscheduler_actions (hook, status) values
    ('a', 'pending'), ('b', 'in-progress'), ('c', 'complete'), ('d', 'failed'), ('e', 'canceled');
