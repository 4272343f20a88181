-- What was published and is not done, in the order of publication: the reconciler walks along it.
create index if not exists ichido_outbox_published on ichido_outbox (queue, published_at) where published_at is not null;
