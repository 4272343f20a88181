//! Fields of JSON messages become what the columns are that they meet.

use crate::testenv::{Env, Kind};

/// Lets an action bind the fields of a JSON message to the columns of a table `met`; gives what the server found equal.
async fn met(env: &Env, message: &str, columns: &[(&str, &str, &str, &str)]) -> Vec<String> {
    let declared: Vec<_> = columns.iter().map(|(name, kind, ..)| format!("{name} {kind}")).collect();
    env.sql(&format!("create table met ({})", declared.join(", "))).await;
    let names: Vec<_> = columns.iter().map(|(name, ..)| *name).collect();
    let values: Vec<_> = columns.iter().map(|(_, _, value, _)| *value).collect();
    let insert = format!("insert into met ({}) values ({})", names.join(", "), values.join(", "));
    let retry = "retry = { attempts = 1 }";
    let action = format!("\n[actions.Meet]\nfrom = \"mail\"\n{retry}\nsql = ['''{insert}''']\n");
    env.configure(|config| config + &action);
    env.ok(&["send", "mail", message]).await;
    let ran = env.run(&["run", "Meet", "--drain"]).await;
    assert_eq!((ran.code, env.number("select count(*) from met").await), (Some(0), 1), "{ran:?}");
    let mut different = Vec::new();
    for (name, kind, _, expected) in columns {
        if env.number(&format!("select count(*) from met where {expected}")).await != 1 {
            different.push(format!("{name} {kind}"));
        }
    }
    different
}

/// A message with a field of every kind that JSON has.
const MESSAGE: &str = r#"{"price": 12345678901234567890.123456789, "big": 9007199254740993, "small": -7, "e": 1.5e3, "yes": true,
    "text": "it's :x \"日本\"", "day": "2026-02-28", "at": "2026-02-28T12:34:56.5", "moment": "2026-02-28T12:34:56.5+09:00", "time": "23:59:58",
    "uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "bytes": "AP8n", "list": [1, 2, null], "object": {"a": [1.10]}, "none": null}"#;

#[tokio::test(flavor = "multi_thread")]
async fn fields_become_what_postgresqls_columns_are() {
    let env = Env::new(Kind::Postgres).await;
    let different = met(
        &env,
        MESSAGE,
        &[
            ("price", "numeric", ":price", "price = 12345678901234567890.123456789"),
            ("twice", "numeric", ":price::numeric * 2", "twice = 24691357802469135780.246913578"),
            ("big", "bigint", ":big", "big = 9007199254740993"),
            ("small", "smallint", ":small", "small = -7"),
            ("e", "double precision", ":e", "e = 1500"),
            ("yes", "boolean", ":yes", "yes"),
            ("t", "varchar(50)", ":text", "t = 'it''s :x \"日本\"'"),
            ("number", "text", ":price", "number = '12345678901234567890.123456789'"),
            ("d", "date", ":day", "d = '2026-02-28'"),
            ("at", "timestamp", ":at", "at = '2026-02-28 12:34:56.5'"),
            ("moment", "timestamptz", ":moment", "moment = '2026-02-28 03:34:56.5+00'"),
            ("tod", "time", ":time", "tod = '23:59:58'"),
            ("u", "uuid", ":uuid", "u = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
            ("b", "bytea", ":bytes", "b = '\\x00ff27'"),
            ("list", "integer[]", ":list", "list = '{1,2,null}'"),
            ("jlist", "jsonb", ":list", "jlist = '[1, 2, null]'"),
            ("o", "jsonb", ":object", "o = '{\"a\": [1.10]}'"),
            ("jt", "jsonb", ":text", "jt = to_jsonb('it''s :x \"日本\"'::text)"),
            ("ot", "text", ":object", "ot = '{\"a\": [1.10]}'"),
            ("n", "integer", ":none", "n is null"),
            ("cast1", "text", ":small::integer::text || '::x'", "cast1 = '-7::x'"),
            ("dollar", "text", "$$:a$$ || ':b' /* :c */", "dollar = ':a:b'"),
        ],
    )
    .await;
    assert_eq!(different, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_become_what_mariadbs_columns_are() {
    let env = Env::new(Kind::MariaDb).await;
    let different = met(
        &env,
        MESSAGE,
        &[
            ("price", "decimal(40, 10)", ":price", "price = 12345678901234567890.123456789"),
            ("twice", "decimal(40, 10)", ":price * 2", "twice = 24691357802469135780.246913578"),
            ("big", "bigint", ":big", "big = 9007199254740993"),
            ("small", "smallint", ":small", "small = -7"),
            ("bits", "bit(8)", "-:small", "bits = 7"),
            ("e", "double", ":e", "e = 1500"),
            ("yes", "boolean", ":yes", "yes = 1"),
            ("t", "varchar(50)", ":text", "t = 'it''s :x \"日本\"'"),
            ("number", "varchar(50)", ":price", "number = '12345678901234567890.123456789'"),
            ("d", "date", ":day", "d = '2026-02-28'"),
            ("at", "datetime(6)", ":at", "at = '2026-02-28 12:34:56.5'"),
            ("tod", "time", ":time", "tod = '23:59:58'"),
            ("u", "uuid", ":uuid", "u = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
            ("b", "blob", "from_base64(:bytes)", "b = x'00ff27'"),
            ("list", "json", ":list", "json_length(list) = 3"),
            ("o", "json", ":object", "o = '{\"a\": [1.10]}'"),
            ("n", "integer", ":none", "n is null"),
            ("quoted", "varchar(20)", "':a' /* :b */", "quoted = ':a'"),
        ],
    )
    .await;
    assert_eq!(different, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_become_what_sqlites_columns_are() {
    let env = Env::new(Kind::Sqlite).await;
    let different = met(
        &env,
        MESSAGE,
        &[
            ("price", "text", ":price", "price = '12345678901234567890.123456789'"),
            ("big", "integer", ":big", "big = 9007199254740993"),
            ("small", "", ":small", "small = -7 and typeof(small) = 'integer'"),
            ("e", "real", ":e", "e = 1500 and typeof(e) = 'real'"),
            ("yes", "boolean", ":yes", "yes = 1"),
            ("t", "varchar(50)", ":text", "t = 'it''s :x \"日本\"'"),
            ("d", "date", ":day", "d = '2026-02-28'"),
            ("o", "text", ":object", "o = '{\"a\": [1.10]}'"),
            ("inside", "text", "json_extract(:list, '$[1]')", "inside = 2"),
            ("n", "integer", ":none", "n is null"),
        ],
    )
    .await;
    assert_eq!(different, Vec::<String>::new());
}
