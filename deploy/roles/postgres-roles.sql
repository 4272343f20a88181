-- Who may do what, on PostgreSQL. Run this once in your database, before the first `ichido migrate`, as a superuser or the
-- owner of the database with CREATEROLE; then `postgres-grants.sql` after each `ichido migrate`. It expects ichido's tables in a
-- schema of their own: `[database] schema = "ichido"`. docs/deploying.md explains it.

-- Owns ichido's schema and tables. Nobody logs in as this role.
create role ichido_owner nologin;
-- Runs `ichido migrate`, and nothing else.
create role ichido_migrator nologin;
-- Runs `ichido run`, `check`, `relay` and `send`.
create role ichido_worker nologin;
-- Runs `status`, `health`, `failed list`, `failed show` and `audit`.
create role ichido_reader nologin;
-- Runs what operators need besides: `failed retry`, `failed discard`, `messages cancel`, `doctor`, `stop`, `pause`.
create role ichido_console nologin;

grant ichido_owner to ichido_migrator;
grant ichido_reader to ichido_console;
create schema ichido authorization ichido_owner;
grant usage on schema ichido to ichido_worker, ichido_reader;

-- Your users get these roles, for example:
--   create role deploy login password '…' in role ichido_migrator;
--   alter role deploy set role = 'ichido_owner';   -- what it creates belongs to the owner
--   create role orders login password '…' in role ichido_worker;
--   create role oncall login password '…' in role ichido_console;
