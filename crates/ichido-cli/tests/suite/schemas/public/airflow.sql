-- Airflow's runs: words that say it, and a default.
create table dag_run (
    id serial primary key, dag_id varchar(250) not null, queued_at timestamptz, execution_date timestamptz not null, start_date timestamptz,
    end_date timestamptz, state varchar(50) default 'queued', run_id varchar(250) not null, external_trigger boolean, run_type varchar(50) not null);
insert into dag_run (dag_id, execution_date, state, run_id, run_type) values
    ('a', now(), 'queued', '1', 'manual'), ('a', now(), 'running', '2', 'manual'), ('a', now(), 'success', '3', 'manual'), ('a', now(), 'failed', '4', 'manual');
