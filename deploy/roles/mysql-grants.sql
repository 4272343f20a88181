-- What the roles may do with ichido's tables, on MariaDB and MySQL. Run this after each `ichido migrate`, as an administrator; it can
-- be repeated. The version of the tables is for migrations to change: nobody else writes to `ichido_schema`.

grant select on ichido.ichido_schema to ichido_worker;
grant select on ichido.ichido_schema to ichido_reader;

grant select, insert, update, delete on ichido.ichido_audit to ichido_worker;
grant select, insert, update, delete on ichido.ichido_audit to ichido_console;
grant select on ichido.ichido_audit to ichido_reader;

grant select, insert, update, delete on ichido.ichido_cancel to ichido_worker;
grant select, insert, update, delete on ichido.ichido_cancel to ichido_console;
grant select on ichido.ichido_cancel to ichido_reader;

grant select, insert, update, delete on ichido.ichido_chore to ichido_worker;
grant select, insert, update, delete on ichido.ichido_chore to ichido_console;
grant select on ichido.ichido_chore to ichido_reader;

grant select, insert, update, delete on ichido.ichido_files to ichido_worker;
grant select, insert, update, delete on ichido.ichido_files to ichido_console;
grant select on ichido.ichido_files to ichido_reader;

grant select, insert, update, delete on ichido.ichido_group to ichido_worker;
grant select, insert, update, delete on ichido.ichido_group to ichido_console;
grant select on ichido.ichido_group to ichido_reader;

grant select, insert, update, delete on ichido.ichido_idempotency to ichido_worker;
grant select, insert, update, delete on ichido.ichido_idempotency to ichido_console;
grant select on ichido.ichido_idempotency to ichido_reader;

grant select, insert, update, delete on ichido.ichido_inbox to ichido_worker;
grant select, insert, update, delete on ichido.ichido_inbox to ichido_console;
grant select on ichido.ichido_inbox to ichido_reader;

grant select, insert, update, delete on ichido.ichido_longest to ichido_worker;
grant select, insert, update, delete on ichido.ichido_longest to ichido_console;
grant select on ichido.ichido_longest to ichido_reader;

grant select, insert, update, delete on ichido.ichido_message to ichido_worker;
grant select, insert, update, delete on ichido.ichido_message to ichido_console;
grant select on ichido.ichido_message to ichido_reader;

grant select, insert, update, delete on ichido.ichido_mutex to ichido_worker;
grant select, insert, update, delete on ichido.ichido_mutex to ichido_console;
grant select on ichido.ichido_mutex to ichido_reader;

grant select, insert, update, delete on ichido.ichido_origin to ichido_worker;
grant select, insert, update, delete on ichido.ichido_origin to ichido_console;
grant select on ichido.ichido_origin to ichido_reader;

grant select, insert, update, delete on ichido.ichido_outbox to ichido_worker;
grant select, insert, update, delete on ichido.ichido_outbox to ichido_console;
grant select on ichido.ichido_outbox to ichido_reader;

grant select, insert, update, delete on ichido.ichido_parked to ichido_worker;
grant select, insert, update, delete on ichido.ichido_parked to ichido_console;
grant select on ichido.ichido_parked to ichido_reader;

grant select, insert, update, delete on ichido.ichido_process to ichido_worker;
grant select, insert, update, delete on ichido.ichido_process to ichido_console;
grant select on ichido.ichido_process to ichido_reader;

grant select, insert, update, delete on ichido.ichido_process_queue to ichido_worker;
grant select, insert, update, delete on ichido.ichido_process_queue to ichido_console;
grant select on ichido.ichido_process_queue to ichido_reader;

grant select, insert, update, delete on ichido.ichido_process_request to ichido_worker;
grant select, insert, update, delete on ichido.ichido_process_request to ichido_console;
grant select on ichido.ichido_process_request to ichido_reader;

grant select, insert, update, delete on ichido.ichido_relay to ichido_worker;
grant select, insert, update, delete on ichido.ichido_relay to ichido_console;
grant select on ichido.ichido_relay to ichido_reader;

grant select, insert, update, delete on ichido.ichido_request to ichido_worker;
grant select, insert, update, delete on ichido.ichido_request to ichido_console;
grant select on ichido.ichido_request to ichido_reader;

grant select, insert, update, delete on ichido.ichido_stat to ichido_worker;
grant select, insert, update, delete on ichido.ichido_stat to ichido_console;
grant select on ichido.ichido_stat to ichido_reader;

-- A worker sees its own queues and what its actions write, and no other table of yours. For a queue on a table:
--   grant select, insert, update on shop.received_order to ichido_worker;
--   grant select, update on shop.received_order to ichido_console;
--   grant select on shop.received_order to ichido_reader;
--   grant insert on shop.project to ichido_worker;
