-- MediaWiki's jobs are deleted when they are done; who runs one writes a token.
create table job (
    job_id int unsigned auto_increment primary key, job_cmd varbinary(60) not null, job_namespace int not null, job_title varbinary(255) not null,
    job_timestamp binary(14), job_params mediumblob not null, job_random int unsigned default 0 not null, job_attempts int unsigned default 0 not null,
    job_token varbinary(32) default '' not null, job_token_timestamp binary(14), job_sha1 varbinary(32) default '' not null);
insert into job (job_cmd, job_namespace, job_title, job_params) values ('refreshLinks', 0, 'Main', '');
