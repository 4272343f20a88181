-- Everything that could leave its quotes: names with quotes, blanks, keywords and statements in them, and values too.
create table TABLE ("order" varchar(40) not null primary key, "a 'b'" varchar(40), item varchar(40) not null, STATUS varchar(40) not null, "Group" char(36));
insert into TABLE ("order", item, STATUS) values
    ('it''s', 'one', 'it''s "new" \ ${HOME}'), ('x/y%', 'poison', 'it''s "new" \ ${HOME}'), ('"; drop', 'three', 'it''s "new" \ ${HOME}'), ('-', 'old', '''done''); --');
