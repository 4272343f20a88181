-- What was answered to requests over HTTP that may come again, by the digest of where they were sent to and of their key; kept for a day.
create table if not exists ichido_idempotency (
    id          char(64) character set ascii collate ascii_bin primary key,
    request     char(64) character set ascii collate ascii_bin not null,
    answer      longtext not null,
    answered_at timestamp(6) not null default current_timestamp(6),
    key ichido_idempotency_age (answered_at)
) engine = InnoDB default charset = utf8mb4;
