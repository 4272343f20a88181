-- Unique keys and groups of managed messages. `freed_key` is the unique key that a failed message had.
alter table ichido_message
    add column if not exists group_key  text collate "C",
    add column if not exists unique_key text collate "C",
    add column if not exists freed_key  text collate "C";
drop index if exists ichido_message_claim;
create index ichido_message_claim on ichido_message (queue, id) where owner is null and group_key is null;
create index if not exists ichido_message_group on ichido_message (queue, group_key, id) where group_key is not null;
create unique index if not exists ichido_message_unique on ichido_message (queue, unique_key) where unique_key is not null;

-- Groups that are held: by a process while it has their first message claimed, or by a message that has failed, until an
-- operator has decided about it; then `owner` is nobody's and `key` says which.
create table if not exists ichido_group (
    queue     text collate "C" not null,
    group_key text collate "C" not null,
    owner     uuid not null,
    key       text collate "C",
    primary key (queue, group_key)
);
create index if not exists ichido_group_owner on ichido_group (owner);
