-- What was answered to requests over HTTP that may come again, by the digest of where they were sent to and of their key; kept for a day.
create table if not exists ichido_idempotency (
    id          text collate "C" primary key,
    request     text not null,
    answer      text not null,
    answered_at timestamptz not null default now()
);
create index if not exists ichido_idempotency_age on ichido_idempotency (answered_at);
