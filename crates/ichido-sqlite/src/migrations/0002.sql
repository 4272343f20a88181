-- Unique keys and groups of managed messages. `freed_key` is the unique key that a failed message had.
alter table ichido_message add column group_key text;
alter table ichido_message add column unique_key text;
alter table ichido_message add column freed_key text;
drop index ichido_message_claim;
create index ichido_message_claim on ichido_message (queue, id) where owner is null and group_key is null;
create index ichido_message_group on ichido_message (queue, group_key, id) where group_key is not null;
create unique index ichido_message_unique on ichido_message (queue, unique_key) where unique_key is not null;

-- Groups that are held: by a process while it has their first message claimed, or by a message that has failed, until an
-- operator has decided about it; then `owner` is nobody's and `key` says which.
create table ichido_group (
    queue     text not null,
    group_key text not null,
    owner     text not null,
    key       text,
    primary key (queue, group_key)
) strict, without rowid;
create index ichido_group_owner on ichido_group (owner);
