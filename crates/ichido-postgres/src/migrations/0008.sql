-- How often a message was snoozed since it last failed. A process of the version before does not set it back; a drain then does not wait
-- for the retry of a message that had been snoozed.
alter table ichido_parked add column if not exists snoozed bigint not null default 0;

-- Runs that ended with a snooze.
alter table ichido_stat add column if not exists snoozed bigint not null default 0;

-- What tells the body that was sent from others: its SHA-256. Null is not compared: rows of the version before, and of senders that write
-- their own.
alter table ichido_mutex add column if not exists hash bytea;
