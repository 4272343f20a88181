-- Quartz: a trigger waits, is acquired, and waits again; only the last time it is complete.
create table qrtz_triggers (
    sched_name text not null, trigger_name text not null, trigger_group text not null, job_name text not null, job_group text not null,
    next_fire_time bigint, prev_fire_time bigint, priority integer, trigger_state text not null, trigger_type text not null,
    start_time bigint not null, misfire_instr smallint, job_data bytea, primary key (sched_name, trigger_name, trigger_group));
insert into qrtz_triggers (sched_name, trigger_name, trigger_group, job_name, job_group, trigger_state, trigger_type, start_time) values
    ('s', 'a', 'g', 'j', 'g', 'WAITING', 'CRON', 1), ('s', 'b', 'g', 'j', 'g', 'COMPLETE', 'CRON', 1), ('s', 'c', 'g', 'j', 'g', 'ERROR', 'CRON', 1);
