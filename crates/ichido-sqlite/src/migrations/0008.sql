-- How often a message was snoozed since it last failed. A process of the version before does not set it back; a drain then does not wait
-- for the retry of a message that had been snoozed.
alter table ichido_parked add column snoozed integer not null default 0;

-- Runs that ended with a snooze.
alter table ichido_stat add column snoozed integer not null default 0;

-- Parked messages of a queue in the order in which operators read them: by the time of the failure, and those that wait by their due time.
create index ichido_parked_since on ichido_parked (queue, state, parked_at, key);
create index ichido_parked_waiting on ichido_parked (queue, due_at, key) where state = 'waiting';

-- What tells the body that was sent from others: its SHA-256. Null is not compared: rows of the version before, and of senders that write
-- their own.
alter table ichido_mutex add column hash blob;
