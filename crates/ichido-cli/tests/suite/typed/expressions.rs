//! A column of a row has its own type in the expressions of an action's statements, without a cast.

use crate::testenv::{Env, Kind};

/// A column of the row, its type and value; what the action computes from it, and the condition that the result must fulfil.
type Computed<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str, &'a str);

/// Lets an action compute something from each column of a row; gives what came out different.
async fn computed(env: &Env, columns: &[Computed<'_>]) -> Vec<String> {
    let of = |write: &dyn Fn(&Computed<'_>) -> String| columns.iter().map(write).collect::<Vec<_>>().join(", ");
    let declared = of(&|(name, kind, ..)| format!("{name} {kind}"));
    let extra = "id integer primary key, status char(1) default '0' not null, process_id char(36)";
    env.sql(&format!("create table original ({extra}, {declared})")).await;
    let results = columns.iter().enumerate().map(|(at, (.., kind, _))| format!("r{at} {kind}"));
    env.sql(&format!("create table computed ({})", results.collect::<Vec<_>>().join(", "))).await;
    let (names, values) = (of(&|(name, ..)| (*name).to_owned()), of(&|(_, _, value, ..)| (*value).to_owned()));
    env.sql(&format!("insert into original (id, {names}) values (1, {values})")).await;
    let insert = format!("insert into computed values ({})", of(&|(_, _, _, expression, ..)| (*expression).to_owned()));
    env.configure(|config| {
        let queue = config[config.find("[queues.orders]").unwrap()..config.find("[queues.mail]").unwrap()].to_owned();
        let queue = queue.replace("queues.orders", "queues.rows").replace("received_order", "original");
        let retry = "retry = { attempts = 1 }";
        format!("{config}\n{queue}\n[actions.Compute]\nfrom = \"rows\"\n{retry}\nsql = ['''{insert}''']\n")
    });
    let ran = env.run(&["run", "Compute", "--drain"]).await;
    assert_eq!((ran.code, env.number("select count(*) from computed").await), (Some(0), 1), "{ran:?}");
    let mut different = Vec::new();
    for (at, (name, kind, _, expression, _, expected)) in columns.iter().enumerate() {
        let expected = expected.replace("$r", &format!("r{at}"));
        if env.number(&format!("select count(*) from computed where {expected}")).await != 1 {
            different.push(format!("{name} {kind}: {expression}"));
        }
    }
    different
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_keep_their_types_in_expressions_of_postgresql() {
    let env = Env::new(Kind::Postgres).await;
    env.sql("create type mood as enum ('low', 'high'); create domain doc as jsonb").await;
    let columns: &[Computed<'_>] = &[
        ("whole", "bigint", "42", ":whole", "bigint", "$r = 42"),
        ("data", "jsonb", "'{\"x\": \"it''s\", \"n\": [1, 2]}'", ":data ->> 'x'", "text", "$r = 'it''s'"),
        ("more", "jsonb", "'{\"a\": 1}'", ":more || '{\"b\": 2}'", "jsonb", "$r = '{\"a\": 1, \"b\": 2}'"),
        ("deep", "jsonb", "'{\"a\": {\"b\": [5]}}'", "(:deep #>> '{a,b,0}')::int + 1", "int", "$r = 6"),
        ("has", "jsonb", "'{\"a\": 1}'", ":has ? 'a'", "boolean", "$r"),
        ("plain", "json", "'{\"x\": 1.50}'", ":plain ->> 'x'", "text", "$r = '1.50'"),
        ("dom", "doc", "'{\"x\": 7}'", "(:dom -> 'x')::int", "int", "$r = 7"),
        ("u", "uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "left(:u::text, 4)", "text", "$r = 'a0ee'"),
        ("price", "numeric", "12345678901234567890.5", ":price * 2", "numeric", "$r = 24691357802469135781"),
        ("loss", "numeric", "-12345678901234567890.5", "abs(:loss)", "numeric", "$r = 12345678901234567890.5"),
        ("part", "numeric", "7.5", "coalesce(:part, 0)", "numeric", "$r = 7.5"),
        ("n", "integer", "7", ":n / 2", "integer", "$r = 3"),
        (
            "at",
            "timestamptz",
            "'2026-02-28 12:00:00.5+09'",
            ":at + interval '1 day'",
            "timestamptz",
            "$r = '2026-03-01 12:00:00.5+09'",
        ),
        ("day", "date", "'2026-02-28'", ":day + 1", "date", "$r = '2026-03-01'"),
        ("b", "bytea", "'\\x00ff27'", "length(:b)", "integer", "$r = 3"),
        ("hex", "bytea", "'\\x00ff'", "encode(:hex, 'hex')", "text", "$r = '00ff'"),
        ("list", "integer[]", "'{3,4,5}'", "cardinality(:list) + (:list)[2]", "integer", "$r = 7"),
        ("tags", "text[]", "array['a', 'b']", ":tags || 'c'::text", "text[]", "$r = array['a', 'b', 'c']"),
        ("any_of", "integer[]", "'{3,4}'", "4 = any(:any_of)", "boolean", "$r"),
        ("m", "mood", "'high'", ":m > 'low'", "boolean", "$r"),
        ("yes", "boolean", "true", "case when :yes then 'y' else 'n' end", "text", "$r = 'y'"),
        ("no", "boolean", "false", "not :no", "boolean", "$r"),
        ("gone", "jsonb", "null", ":gone ->> 'x'", "text", "$r is null"),
        // What goes into a column as it is becomes what the column is, as before.
        ("digits", "varchar(9)", "'42'", ":digits", "integer", "$r = 42"),
        ("stamp", "timestamp", "'2026-02-28 12:00:00'", ":stamp", "text", "$r = '2026-02-28T12:00:00'"),
        ("code", "varchar(9)", "'7'", "10 + :code", "integer", "$r = 17"),
    ];
    assert_eq!(computed(&env, columns).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_keep_their_types_in_expressions_of_mariadb() {
    let env = Env::new(Kind::MariaDb).await;
    let columns: &[Computed<'_>] = &[
        ("data", "json", "'{\"x\": \"y\"}'", "json_value(:data, '$.x')", "varchar(9)", "$r = 'y'"),
        (
            "price",
            "decimal(30, 5)",
            "12345678901234567890.5",
            ":price / 2",
            "decimal(30, 5)",
            "$r = 6172839450617283945.25",
        ),
        ("n", "integer", "7", ":n div 2", "integer", "$r = 3"),
        (
            "at",
            "datetime(6)",
            "'2026-02-28 12:00:00.5'",
            ":at + interval 1 day",
            "datetime(6)",
            "$r = '2026-03-01 12:00:00.5'",
        ),
        (
            "moment",
            "timestamp(6) null",
            "'2026-02-28 12:00:00.5'",
            "timestampadd(day, 1, :moment)",
            "datetime(6)",
            "$r = '2026-03-01 12:00:00.5'",
        ),
        ("day", "date", "'2026-02-28'", "date_add(:day, interval 1 day)", "date", "$r = '2026-03-01'"),
        ("b", "blob", "x'00ff27'", "length(:b)", "integer", "$r = 3"),
        ("hex_of", "varbinary(9)", "x'00ff'", "hex(:hex_of)", "varchar(9)", "$r = '00FF'"),
        ("m", "enum('low', 'high')", "'high'", "upper(:m)", "varchar(9)", "$r = 'HIGH'"),
        ("yes", "boolean", "true", "if(:yes, 'y', 'n')", "varchar(9)", "$r = 'y'"),
        ("no", "boolean", "false", "not :no", "boolean", "$r = 1"),
        ("u", "uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "left(:u, 4)", "varchar(9)", "$r = 'a0ee'"),
        ("bits", "bit(8)", "b'101'", ":bits + 1", "integer", "$r = 6"),
        ("f", "double", "0.1", ":f * 3", "double", "abs($r - 0.3) < 0.001"),
    ];
    assert_eq!(computed(&env, columns).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_keep_their_types_in_expressions_of_sqlite() {
    let env = Env::new(Kind::Sqlite).await;
    let columns: &[Computed<'_>] = &[
        ("data", "json", "'{\"x\": \"y\"}'", ":data ->> 'x'", "text", "$r = 'y'"),
        ("n", "integer", "7", ":n / 2", "integer", "$r = 3"),
        ("f", "real", "7.0", ":f / 2", "real", "$r = 3.5"),
        ("at", "datetime", "'2026-02-28 12:00:00'", "datetime(:at, '+1 day')", "text", "$r = '2026-03-01 12:00:00'"),
        ("b", "blob", "x'00ff27'", "length(:b)", "integer", "$r = 3"),
        ("hex_of", "blob", "x'00ff'", "hex(:hex_of)", "text", "$r = '00FF'"),
        ("yes", "boolean", "true", "iif(:yes, 'y', 'n')", "text", "$r = 'y'"),
        ("no", "boolean", "false", "not :no", "boolean", "$r = 1"),
    ];
    assert_eq!(computed(&env, columns).await, Vec::<String>::new());
}
