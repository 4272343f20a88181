//! Values go through the built-in action `sql` unchanged: a table with a column of every type, copied row by row by an action, and
//! compared by the server.

use crate::testenv::{Env, Kind};

/// A column: its type, and values for it as the server reads them.
type Columns<'a> = &'a [(&'a str, &'a [&'a str])];

/// Makes the tables `original` and `copy`, fills one and lets an action fill the other; tells which columns differ.
async fn differences(env: &Env, columns: Columns<'_>, same: impl Fn(&str) -> String) -> Vec<String> {
    let names: Vec<_> = (0..columns.len()).map(|at| format!("c{at}")).collect();
    let declared: Vec<_> = columns.iter().zip(&names).map(|((kind, _), name)| format!("{name} {kind}")).collect();
    let extra = "id integer primary key, status char(1) default '0' not null, process_id char(36)";
    env.sql(&format!("create table original ({extra}, {})", declared.join(", "))).await;
    env.sql(&format!("create table copy (id integer primary key, {})", declared.join(", "))).await;
    let rows = columns.iter().map(|(_, values)| values.len()).max().unwrap();
    for row in 0..=rows {
        let value = |(_, values): &(_, &[&str])| (*values.get(row).unwrap_or(&"null")).to_owned();
        let values: Vec<_> = columns.iter().map(value).collect();
        let insert = format!("insert into original (id, {}) values ({row}, {})", names.join(", "), values.join(", "));
        env.sql(&insert).await;
    }
    let places: Vec<_> = names.iter().map(|name| format!(":{name}")).collect();
    let copy = format!("insert into copy (id, {}) values (:id, {})", names.join(", "), places.join(", "));
    env.configure(|config| {
        let queue = config[config.find("[queues.orders]").unwrap()..config.find("[queues.mail]").unwrap()].to_owned();
        let queue = queue.replace("queues.orders", "queues.rows").replace("received_order", "original");
        let retry = "retry = { attempts = 1 }";
        format!("{config}\n{queue}\n[actions.Copy]\nfrom = \"rows\"\n{retry}\nsql = [\"{copy}\"]\n")
    });
    let ran = env.run(&["run", "Copy", "--drain"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let copied = env.number("select count(*) from copy").await;
    assert_eq!(copied, i64::try_from(rows + 1).unwrap(), "{}", ran.stderr);
    let mut different = Vec::new();
    for ((kind, _), name) in columns.iter().zip(&names) {
        let count = format!("select count(*) from original o join copy c on o.id = c.id where not ({})", same(name));
        if env.number(&count).await > 0 {
            different.push(format!("{name} {kind}"));
        }
    }
    different
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_of_postgresql_goes_back_unchanged() {
    let env = Env::new(Kind::Postgres).await;
    env.sql(
        "create type mood as enum ('so so', 'it''s \"fine\"'); create domain positive as integer check (value > 0); \
         create domain raw as bytea; create domain few as integer[]; create domain doc as jsonb; \
         create type pair as (n numeric, t text, b bytea)",
    )
    .await;
    let columns: Columns = &[
        ("smallint", &["-32768", "32767"]),
        ("integer", &["-2147483648", "2147483647"]),
        ("bigint", &["-9223372036854775808", "9223372036854775807", "9007199254740993"]),
        ("numeric", &["12345678901234567890.12345678901234567890", "'NaN'", "'-Infinity'", "1e-200", "1.10", "-0.0"]),
        ("numeric(30, 10)", &["0.0000000001", "99999999999999999999.9999999999"]),
        ("real", &["1.1", "'NaN'", "'Infinity'", "3.4028235e38", "1e-45", "'-0'"]),
        (
            "double precision",
            &["0.1", "'NaN'", "'-Infinity'", "1.7976931348623157e308", "5e-324", "0.30000000000000004"],
        ),
        ("money", &["12.34::money", "'-92233720368547758.08'"]),
        ("boolean", &["true", "false"]),
        ("char(5)", &["'a'", "'it''s'"]),
        ("varchar(20)", &["''", "' a  '", "'日本 \"\\'"]),
        ("text", &["E'tab\\tnl\\n\\\\ :name $1 \\'\"'", "'null'", "'123'", "'[1]'", "'\u{1F600}'"]),
        ("\"char\"", &["'x'", "''"]),
        ("name", &["'some name'"]),
        ("bytea", &["'\\x00ff5c78'", "''", "decode(repeat('61', 200), 'hex')", "'\\x5c7830'"]),
        ("date", &["'2026-02-28'", "'infinity'", "'0044-03-15 BC'", "'12345-01-01'"]),
        ("time", &["'23:59:59.999999'", "'24:00'"]),
        ("time with time zone", &["'12:00:00.5+14:30'"]),
        ("timestamp", &["'2026-02-28 12:34:56.123456'", "'-infinity'", "'0044-03-15 01:02:03 BC'", "'12345-01-01'"]),
        ("timestamptz", &["'2026-02-28 12:34:56.123456+09'", "'infinity'", "'0044-03-15 01:02:03 BC'", "'1800-01-01'"]),
        ("interval", &["'1 year -2 mons 3 days -04:05:06.789'", "'-1 day'"]),
        ("uuid", &["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"]),
        (
            "json",
            &["'{\"b\":  [1.10, 1e5], \"a\": null, \"a\": \"\\u0041\"}'", "'\"text\"'", "'12.50'", "'true'", "'[]'"],
        ),
        ("jsonb", &["'{\"b\": [1.10, null], \"a\": {}}'", "'\"text\"'", "'12345678901234567890.10'", "'false'"]),
        ("inet", &["'192.168.0.1/24'", "'::1'"]),
        ("cidr", &["'10.0.0.0/8'"]),
        ("macaddr", &["'08:00:2b:01:02:03'"]),
        ("bit(5)", &["B'10101'"]),
        ("bit varying", &["B'1'", "B''"]),
        ("point", &["'(1.1,-2)'"]),
        ("line", &["'{1,2,3}'"]),
        ("box", &["'(1,2),(0,0.1)'"]),
        ("path", &["'[(0,0),(1,1)]'"]),
        ("polygon", &["'((0,0),(1,1),(1,0))'"]),
        ("circle", &["'<(0,0),1.5>'"]),
        ("tsvector", &["'a:1 ''it''''s'':2'"]),
        ("tsquery", &["'a & !b'"]),
        ("int4range", &["'[1,5)'", "'empty'", "'(,)'"]),
        ("numrange", &["'(0.10,9)'"]),
        ("tstzrange", &["'[2026-01-01 00:00+02,infinity)'"]),
        ("oid", &["4294967295"]),
        ("pg_lsn", &["'16/B374D848'"]),
        ("mood", &["'so so'", "'it''s \"fine\"'"]),
        ("positive", &["7"]),
        ("raw", &["'\\x00ff'"]),
        ("few", &["'{1,2}'"]),
        ("doc", &["'{\"a\": 1.0}'", "'\"x\"'"]),
        ("pair", &["row(1.10, 'a \"b\", (c)', '\\x00')", "row(null, null, null)"]),
        ("integer[]", &["'{1,null,3}'", "'{}'", "'{{1,2},{3,4}}'"]),
        ("text[]", &["array['a', 'NULL', null, 'c \"d\", {e}', '', '\\']", "array[['a'],['b']]"]),
        ("numeric[]", &["'{1.10,NaN,12345678901234567890.5}'"]),
        ("boolean[]", &["'{t,f,null}'"]),
        ("timestamptz[]", &["'{2026-01-01 00:00:00.5+00,infinity}'"]),
        ("jsonb[]", &["array['{\"a\": [1]}', '\"x\"', '1.0']::jsonb[]"]),
        ("bytea[]", &["array['\\x00ff', '']::bytea[]"]),
        ("mood[]", &["array['so so', 'it''s \"fine\"']::mood[]"]),
        ("pair[]", &["array[row(1.0, 'x', '\\xff')::pair]"]),
        ("uuid[]", &["'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'"]),
    ];
    let same = |name: &str| format!("o.{name}::text is not distinct from c.{name}::text");
    assert_eq!(differences(&env, columns, same).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_of_mariadb_goes_back_unchanged() {
    let env = Env::new(Kind::MariaDb).await;
    let columns: Columns = &[
        ("tinyint", &["-128", "127"]),
        ("tinyint unsigned", &["255"]),
        ("boolean", &["true", "false"]),
        ("smallint", &["-32768"]),
        ("mediumint unsigned", &["16777215"]),
        ("int zerofill", &["42"]),
        ("decimal(20, 5) zerofill", &["1.10"]),
        ("double zerofill", &["1.5"]),
        ("bigint", &["-9223372036854775808", "9007199254740993"]),
        ("bigint unsigned", &["18446744073709551615"]),
        ("decimal(65, 30)", &["12345678901234567890123456789012345.123456789012345678901234567890", "-0.1"]),
        ("decimal(10, 2)", &["1.10", "99999999.99"]),
        ("float", &["1.1", "16777216", "3.4e38", "1e-38", "0.33333334"]),
        (
            "double",
            &[
                "0.1",
                "1.7976931348623157e308",
                "2.2250738585072014e-308",
                "0.30000000000000004",
                "1e15",
                "123456789.123456789",
            ],
        ),
        ("bit(1)", &["b'1'", "b'0'"]),
        ("bit(64)", &["18446744073709551615", "b'101'", "48"]),
        ("year", &["2026", "0", "1901"]),
        ("date", &["'2026-02-28'", "'0000-00-00'", "'9999-12-31'"]),
        ("time(6)", &["'-838:59:59'", "'838:59:59.999999'", "'00:00:00.000001'"]),
        ("datetime(6)", &["'2026-02-28 12:34:56.123456'", "'0000-00-00 00:00:00'", "'1000-01-01'"]),
        ("datetime", &["'2026-02-28 12:34:56'"]),
        ("timestamp(6) null", &["'2026-02-28 12:34:56.123456'", "'1970-01-01 00:00:01'"]),
        ("timestamp null", &["'2026-02-28 12:34:56'"]),
        ("char(5)", &["'a'", "'it''s'"]),
        ("varchar(50)", &["''", "' a  '", "'日本 \"\\\\'", "'123'", "'null'", "'1e5'"]),
        ("varchar(20) character set latin1", &["'é'"]),
        ("text", &["'tab\\tnl\\n :name ? \\'\"'", "'[1]'", "'\u{1F600}'"]),
        ("longtext", &["repeat('x', 100000)"]),
        ("binary(4)", &["x'00ff'", "x'41424344'"]),
        ("varbinary(200)", &["x'00ff5c27'", "''", "repeat(x'ff', 200)"]),
        ("blob", &["x'80'", "'abc'", "x'27'"]),
        ("enum('so so', 'it''s', '1')", &["'so so'", "'it''s'", "'1'"]),
        ("set('a', 'b', 'c d')", &["'a,c d'", "''"]),
        ("json", &["'{\"b\":  [1.10, 1e5], \"a\": null}'", "'\"text\"'", "'12.50'", "'true'", "'[]'"]),
        ("uuid", &["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"]),
        ("inet6", &["'::1'", "'2001:db8::ff00:42:8329'"]),
        ("point", &["point(1.1, -2)"]),
        ("geometry", &["st_geomfromtext('POLYGON((0 0, 1 0, 1 1, 0 0))')"]),
    ];
    let same = |name: &str| format!("o.{name} <=> c.{name} and cast(o.{name} as binary) <=> cast(c.{name} as binary)");
    assert_eq!(differences(&env, columns, same).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_storage_class_of_sqlite_goes_back_unchanged() {
    let env = Env::new(Kind::Sqlite).await;
    let all: &[&str] = &[
        "-9223372036854775808",
        "9007199254740993",
        "0.1",
        "1.0",
        "1e300",
        "9e999",
        "-9e999",
        "5e-324",
        "''",
        "'123'",
        "'1.10'",
        "'AP8='",
        "'Infinity'",
        "'日本 \"''\\ :name ?'",
        "'a' || char(0) || 'b'",
        "x''",
        "x'00ff27'",
        "x'414243'",
        "'{\"a\": 1.10}'",
        "true",
        "12345678901234567890.12",
    ];
    let columns: Columns = &[
        ("", all),
        ("integer", all),
        ("real", all),
        ("numeric", all),
        ("text", all),
        ("blob", all),
        ("boolean", all),
        ("decimal(10, 2)", all),
        ("datetime", all),
        ("varchar(10)", all),
    ];
    let same = |name: &str| {
        format!("o.{name} is c.{name} and typeof(o.{name}) = typeof(c.{name}) and hex(o.{name}) = hex(c.{name})")
    };
    assert_eq!(differences(&env, columns, same).await, Vec::<String>::new());
}
