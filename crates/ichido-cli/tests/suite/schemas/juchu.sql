-- 日本の受注: names and values in Japanese, a CHAR key that is not full, no primary key but a unique one.
create table "受注" (
    "受注番号" char(10) not null,
    "枝番" smallint not null,
    "品名" varchar(60) not null,
    "処理状態" varchar(10) not null,
    unique ("受注番号", "枝番")
);
insert into "受注" ("受注番号", "枝番", "品名", "処理状態") values
    ('J1', 1, '机', '処理済'), ('J2  ', 1, '椅子', '未処理'), ('J2', 2, 'poison', '未処理'), ('番号', 1, '棚', '未処理');
