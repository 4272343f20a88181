-- Who may do what, on MariaDB and MySQL. Run this once, before the first `ichido migrate`, as an administrator; then
-- `mysql-grants.sql` after each `ichido migrate`. It expects ichido's tables in a database of their own:
-- `[database] schema = "ichido"`. docs/deploying.md explains it.

create database if not exists ichido;

-- Runs `ichido migrate`, and nothing else; the owner of what it creates is the database.
create role ichido_migrator;
grant create, alter, drop, index, references, select, insert, update, delete on ichido.* to ichido_migrator;
-- Runs `ichido run`, `check`, `relay` and `send`.
create role ichido_worker;
-- Runs `status`, `health`, `failed list`, `failed show` and `audit`.
create role ichido_reader;
-- Runs what operators need besides: `failed retry`, `failed discard`, `messages cancel`, `doctor`, `stop`, `pause`.
create role ichido_console;
grant ichido_reader to ichido_console;

-- A migrator connects to `ichido` itself (mysql://deploy@host/ichido): it has no right in the application's database.
-- Your users get these roles, for example:
--   create user 'orders'@'%' identified by '…';
--   grant ichido_worker to 'orders'@'%';
--   set default role ichido_worker for 'orders'@'%';   -- MariaDB; on MySQL: … to 'orders'@'%'
