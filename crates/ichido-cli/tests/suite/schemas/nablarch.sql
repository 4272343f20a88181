-- The classic recipe: CHAR(10) key, 14 business columns, STATUS CHAR(1), PROCESS_ID that nobody clears.
create table INS_PROJECT_RECEIVE_MESSAGE (
    RECEIVED_MESSAGE_SEQUENCE CHAR(10) not null primary key,
    PROJECT_NAME VARCHAR(128) not null,
    PROJECT_TYPE VARCHAR(128) not null,
    PROJECT_CLASS VARCHAR(128) not null,
    PROJECT_START_DATE DATE,
    PROJECT_END_DATE DATE,
    CLIENT_ID INTEGER,
    PROJECT_MANAGER VARCHAR(128),
    PROJECT_LEADER VARCHAR(128),
    USER_ID INTEGER,
    NOTE VARCHAR(512),
    SALES INTEGER,
    COST_OF_GOODS_SOLD INTEGER,
    SGA INTEGER,
    ALLOCATION_OF_CORP_EXPENSES INTEGER,
    STATUS CHAR(1),
    PROCESS_ID CHAR(36)
);
create index IDX_INS_PROJECT_STATUS on INS_PROJECT_RECEIVE_MESSAGE (STATUS);
insert into INS_PROJECT_RECEIVE_MESSAGE (RECEIVED_MESSAGE_SEQUENCE, PROJECT_NAME, PROJECT_TYPE, PROJECT_CLASS, PROJECT_START_DATE, SALES, STATUS, PROCESS_ID) values
    ('0000000001', 'old', 'development', 'a', '2016-04-01', 1000, '1', '5f1c3f06-6d5f-4a4c-9d60-3a2b6f9c3d11'),
    ('0000000002', 'bad', 'development', 'a', '2016-04-01', 1000, '2', '5f1c3f06-6d5f-4a4c-9d60-3a2b6f9c3d11'),
    ('0000000003', 'older', 'development', 'a', '2016-04-01', 1000, '1', '5f1c3f06-6d5f-4a4c-9d60-3a2b6f9c3d11'),
    ('0000000004', 'one', 'development', 'ss', '2016-04-01', 1000, '0', null),
    ('0000000005', 'poison', 'development', 's', null, null, '0', null),
    ('0000000006', 'three', 'integration', 'b', '2016-04-01', 1000, '0', null),
    ('ABC', 'four', 'integration', 'b', '2016-04-01', 1000, '0', null);
