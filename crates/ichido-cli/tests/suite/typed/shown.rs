//! The JSON of a row, as `http` and `exec` pass it on.

use crate::testenv::{Env, Kind};

/// What a program gets.
#[derive(serde::Deserialize)]
struct Whole {
    payload: std::collections::HashMap<String, Box<serde_json::value::RawValue>>,
}

/// The JSON of each field of a row of `original`, as a program gets it.
async fn shown(env: &Env, columns: &[(&str, &str)]) -> Vec<String> {
    let declared: Vec<_> = columns.iter().enumerate().map(|(at, (kind, _))| format!("c{at} {kind}")).collect();
    let names: Vec<_> = (0..columns.len()).map(|at| format!("c{at}")).collect();
    let values: Vec<_> = columns.iter().map(|(_, value)| *value).collect();
    let extra = "id integer primary key, status char(1) default '0' not null, process_id char(36)";
    env.sql(&format!("create table original ({extra}, {})", declared.join(", "))).await;
    env.sql(&format!("insert into original (id, {}) values (1, {})", names.join(", "), values.join(", "))).await;
    env.configure(|config| {
        let config = config.replace("received_order", "original");
        let before = config.find("sql ").unwrap();
        format!("{}exec = [\"sh\", \"-c\", \"cat > got\"]\n", &config[..before])
    });
    env.ok(&["run", "--drain"]).await;
    let got = std::fs::read_to_string(env.folder().join("got")).unwrap();
    let whole: Whole = serde_json::from_str(&got).unwrap();
    names.iter().map(|name| whole.payload[name].get().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_json_of_a_row_of_postgresql_is_exact() {
    let env = Env::new(Kind::Postgres).await;
    let columns = [
        ("numeric", "12345678901234567890.10", "12345678901234567890.10"),
        ("bigint", "9007199254740993", "9007199254740993"),
        ("double precision", "0.1", "0.1"),
        ("double precision", "'NaN'", "\"NaN\""),
        ("real", "'-Infinity'", "\"-Infinity\""),
        ("boolean", "true", "true"),
        ("bytea", "'\\x00ff'", "\"AP8=\""),
        ("date", "'2026-02-28'", "\"2026-02-28\""),
        ("time", "'12:34:56.5'", "\"12:34:56.5\""),
        ("timestamp", "'2026-02-28 12:34:56.5'", "\"2026-02-28T12:34:56.5\""),
        ("timestamptz", "'2026-02-28 12:34:56.5+09'", "\"2026-02-28T03:34:56.5+00:00\""),
        ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\""),
        ("json", "'{\"a\":  1.10}'", "{\"a\":  1.10}"),
        ("integer[]", "'{1,null}'", "[1,null]"),
        ("text", "null", "null"),
    ];
    let expected = columns.map(|(_, _, json)| json.to_owned());
    assert_eq!(shown(&env, &columns.map(|(kind, value, _)| (kind, value))).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_json_of_a_row_of_mariadb_is_exact() {
    let env = Env::new(Kind::MariaDb).await;
    let columns = [
        ("decimal(40, 2)", "12345678901234567890.10", "12345678901234567890.10"),
        ("bigint unsigned", "18446744073709551615", "18446744073709551615"),
        ("double", "0.1", "0.1"),
        ("boolean", "true", "1"),
        ("bit(3)", "b'101'", "5"),
        ("int zerofill", "7", "7"),
        ("year", "2026", "\"2026\""),
        ("varbinary(10)", "x'00ff'", "\"AP8=\""),
        ("date", "'0000-00-00'", "\"0000-00-00\""),
        ("time", "'-838:59:59'", "\"-838:59:59\""),
        ("datetime", "'2026-02-28 12:34:56'", "\"2026-02-28T12:34:56.000000\""),
        ("timestamp null", "'2026-02-28 12:34:56'", "\"2026-02-28T12:34:56.000000Z\""),
        ("enum('a', 'b')", "'b'", "\"b\""),
        ("set('a', 'b')", "'a,b'", "\"a,b\""),
        ("json", "'{\"a\": 1.10}'", "{\"a\": 1.10}"),
        ("text", "null", "null"),
    ];
    let expected = columns.map(|(_, _, json)| json.to_owned());
    assert_eq!(shown(&env, &columns.map(|(kind, value, _)| (kind, value))).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_json_of_a_row_of_sqlite_is_exact() {
    let env = Env::new(Kind::Sqlite).await;
    let columns = [
        ("integer", "9007199254740993", "9007199254740993"),
        ("real", "0.1", "0.1"),
        ("real", "9e999", "\"Infinity\""),
        ("", "-9e999", "\"-Infinity\""),
        ("blob", "x'00ff'", "\"AP8=\""),
        ("text", "'12345678901234567890.10'", "\"12345678901234567890.10\""),
        ("datetime", "'2026-02-28 12:34:56'", "\"2026-02-28 12:34:56\""),
        ("text", "null", "null"),
    ];
    let expected = columns.map(|(_, _, json)| json.to_owned());
    assert_eq!(shown(&env, &columns.map(|(kind, value, _)| (kind, value))).await, expected);
}
