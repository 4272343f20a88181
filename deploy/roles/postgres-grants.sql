-- What the roles may do with ichido's tables, on PostgreSQL. Run this after each `ichido migrate`, as ichido_owner or a superuser; it
-- can be repeated.

grant select on all tables in schema ichido to ichido_reader;
grant select, insert, update, delete on all tables in schema ichido to ichido_worker, ichido_console;

-- Only migrations change which version the tables have.
revoke insert, update, delete on ichido.ichido_schema from ichido_worker, ichido_console;

-- A worker sees its own queues and what its actions write, and no other table of yours. For a queue on a table:
--   grant select, insert, update on received_order to ichido_worker;
--   grant select, update on received_order to ichido_console;
--   grant select on received_order to ichido_reader;
--   grant insert on project to ichido_worker;
