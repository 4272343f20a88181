-- What was answered to requests over HTTP that may come again, by the digest of where they were sent to and of their key; kept for a day.
create table ichido_idempotency (
    id          text primary key,
    request     text not null,
    answer      text not null,
    answered_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict, without rowid;
create index ichido_idempotency_age on ichido_idempotency (answered_at);
