-- How often a message was snoozed since it last failed. A process of the version before does not set it back; a drain then does not wait
-- for the retry of a message that had been snoozed. And parked messages of a queue in the order in which operators read them: by the time
-- of the failure, and those that wait by their due time; the server adds the key to both.
-- Skipped if this column is there: ichido_parked.snoozed
alter table ichido_parked
    add column snoozed bigint not null default 0,
    add key ichido_parked_since (queue, state, parked_at),
    add key ichido_parked_waiting (queue, state, due_at);

-- Runs that ended with a snooze.
-- Skipped if this column is there: ichido_stat.snoozed
alter table ichido_stat add column snoozed bigint not null default 0;

-- What tells the body that was sent from others: its SHA-256. Null is not compared: rows of the version before, and of senders that write
-- their own.
-- Skipped if this column is there: ichido_mutex.hash
alter table ichido_mutex add column hash varbinary(32);

-- Cancelled messages, for the process that had one claimed: it drops what runs. With `asked` the message is still to be cancelled, by whoever
-- can lock it first; nobody's, where nobody knows which process runs it. It then says who asked.
create table if not exists ichido_cancel (
    process  char(36) character set ascii collate ascii_bin not null,
    queue    varchar(64) character set ascii collate ascii_bin not null,
    `key`    varbinary(1000) not null,
    asked    tinyint not null,
    asked_at timestamp(6) not null default current_timestamp(6),
    by_user  varchar(255),
    by_host  varchar(255),
    reason   text,
    primary key (process, queue, `key`)
) engine = InnoDB default charset = utf8mb4;

-- Who did it, from where and why; rows from before say nothing about it.
-- Skipped if this column is there: ichido_audit.reason
alter table ichido_audit
    add column by_user varchar(255),
    add column by_host varchar(255),
    add column reason  text,
    add key ichido_audit_message (queue, `key`),
    add key ichido_audit_queue (queue, id);
