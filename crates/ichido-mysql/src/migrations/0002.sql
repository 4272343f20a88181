-- Unique keys and groups of managed messages. `freed_key` is the unique key that a failed message had.
-- Skipped if this column is there: ichido_message.group_key
alter table ichido_message
    add column group_key  varchar(255) character set utf8mb4 collate utf8mb4_bin,
    add column unique_key varbinary(255),
    add column freed_key  varbinary(255),
    drop key ichido_message_claim,
    add key ichido_message_claim (queue, owner, group_key, id),
    add key ichido_message_group (queue, group_key, id),
    add unique key ichido_message_unique (queue, unique_key);

-- Groups that are held: by a process while it has their first message claimed, or by a message that has failed, until an
-- operator has decided about it; then `owner` is nobody's and `key` says which.
create table if not exists ichido_group (
    queue     varchar(64) character set ascii collate ascii_bin not null,
    group_key varbinary(1000) not null,
    owner     char(36) character set ascii collate ascii_bin not null,
    `key`     varbinary(1000),
    primary key (queue, group_key),
    key ichido_group_owner (owner)
) engine = InnoDB default charset = utf8mb4;
