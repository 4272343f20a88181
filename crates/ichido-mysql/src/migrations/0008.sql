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
