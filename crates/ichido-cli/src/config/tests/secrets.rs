//! Addresses, and that no message and no log line shows a password.

use super::super::{Config, masked};
use super::{accepted, nothing_set, refusal, refused, with_action, with_queue};

#[test]
fn a_password_is_masked_wherever_it_stands() {
    let cases = [
        ("postgres://app:secret@db:5432/shop", "postgres://app:***@db:5432/shop"),
        ("postgres://app@db/shop", "postgres://app@db/shop"),
        ("postgres://app:@db/shop", "postgres://app:***@db/shop"),
        ("postgres://:secret@db/shop", "postgres://:***@db/shop"),
        ("postgres://app:se@cr/et?@db/shop", "postgres://app:***@db/shop"),
        ("app:secret@db/shop", "app:***@db/shop"),
        ("app:sec://ret@db/shop", "app:***@db/shop"),
        ("postgres://db/shop?user=app&password=secret", "postgres://db/shop?user=app&password=***"),
        ("postgres://db:1/shop?PASSWORD=secret&x=1", "postgres://db:1/shop?PASSWORD=***&x=1"),
        ("postgres://db/shop?pwd=sec@ret&x=1", "postgres://db/shop?pwd=***&x=1"),
        ("postgres://app:sec&pwd=ret@db", "postgres://app:***"),
        ("mysql://db/shop?sslpassword=secret", "mysql://db/shop?sslpassword=***"),
        ("host=db password=secret user=app", "host=db password=*** user=app"),
        ("password = 'se cr\\' et' host=db", "password =*** host=db"),
        ("password='secret", "password=***"),
        ("sqlite://ichido.db", "sqlite://ichido.db"),
        ("sqlite://data/x.db?mode=ro", "sqlite://data/x.db?mode=ro"),
        ("", ""),
    ];
    for (url, shown) in cases {
        assert_eq!(masked(url), shown);
    }
}

#[test]
fn printing_a_configuration_shows_no_secret() {
    let text = "[database]\nurl = \"postgres://app:s3cret@db/shop\"\n\
        [queues.r.rabbitmq]\nurl = \"amqp://u:s3cret@h\"\nqueue = \"x\"\n\
        management = \"http://u:s3cret@h\"\n\
        [queues.s]\nsqs = { endpoint = \"https://u:s3cret@h\", queue = \"x\" }\n\
        [actions.A]\nfrom = \"r\"\n\
        [actions.A.http]\nurl = \"http://u:s3cret@h\"\n\
        headers = { Authorization = \"s3cret\" }\n";
    let config = accepted(text);
    let printed = format!("{config:?} {:#?} {}", config.actions, config.database.url);
    assert!(printed.contains("***") && !printed.contains("s3cret"), "{printed}");
    assert_eq!(config.database.url.as_str(), "postgres://app:s3cret@db/shop");
}

#[test]
fn no_message_shows_a_password() {
    let url = "://u:s3cret@h/d?password=s3cret";
    let texts = [
        format!("[database]\nurl = \"postgras{url}\""),
        "[database]\nurl = \"u:s3cret@h\"".to_owned(),
        "[database]\nurl = \"//u:s3cret@h\"".to_owned(),
        format!("[database]\nurl = \"postgres{url}\\u0007\""),
        "[database]\nurl = \"postgres:u:s3cret@h\"".to_owned(),
        format!("[database]\npool = \"postgres{url}\""),
        format!("[log]\nformat = \"postgres{url}\""),
        format!("[process]\nexempt = \"postgres{url}\""),
        with_queue(&format!("rabbitmq = {{ url = \"amqb{url}\", queue = \"x\" }}")),
        with_queue(&format!("rabbitmq = {{ url = [\"amqp{url}\", \"x{url}\"], queue = \"x\" }}")),
        with_queue(&format!("sqs = {{ endpoint = \"amqp{url}\", queue = \"x\" }}")),
        with_queue(&format!("sqs = {{ queue = \"https{url}\" }}")),
        with_action(&format!("http = {{ url = \"amqp{url}\" }}")),
        format!("[database]\nurl = \"postgres{url}"),
        format!("[database]\nurl = postgres{url}"),
    ];
    for text in texts {
        let message = super::parse(&text).unwrap_err().to_string();
        assert!(!message.contains("s3cret"), "{message}");
    }
}

#[test]
fn an_address_needs_a_scheme_that_is_known() {
    let url = |url: &str| format!("[database]\nurl = \"{url}\"");
    refused(
        &url("postgress://db/shop"),
        &[
            "ichido.toml:2: database.url: unknown scheme `postgress`; did you mean `postgres`?",
            "allowed: sqlite://, postgres://",
        ],
    );
    refused(&url("ichido.db"), &["database.url: the address has no scheme; allowed: sqlite://"]);
    refused(&url("C\\u0000:x"), &["contains a NUL character"]);
    refused(&url(""), &["has no scheme"]);
    refused(&url("sqlite://"), &["the address is incomplete: nothing follows `sqlite:`"]);
    refused(&url("postgres:db"), &["`postgres:` must be followed by `//`"]);
    refused(&url("postgres://db\\n"), &["the address contains a control character"]);
    for good in ["sqlite:ichido.db", "sqlite::memory:", "postgresql:///shop?host=/run", "mysql://h/d", "mariadb://h/d"]
    {
        assert_eq!(accepted(&url(good)).database.url.as_str(), good);
    }
    let broker = with_queue("rabbitmq = { url = [], queue = \"x\" }");
    refused(&broker, &["queues.q.rabbitmq.url: the list is empty"]);
}

#[test]
fn the_environment_overrides_the_address_of_the_file() {
    let with = |value: &'static str| move |name: &str| (name == "ICHIDO_DATABASE_URL").then(|| value.to_owned());
    let file = "[database]\nurl = \"mysql://db/shop\"";
    let config = Config::parse(file, "ichido.toml", &with("sqlite://other.db")).unwrap();
    assert_eq!(config.database.url.as_str(), "sqlite://other.db");
    let config = Config::parse("", "ichido.toml", &with("")).unwrap();
    assert_eq!(config.database.url.as_str(), "sqlite://ichido.db");
    let refused = |value| Config::parse("", "ichido.toml", &with(value)).unwrap_err().to_string();
    assert!(refused("u:s3cret@db").starts_with("ICHIDO_DATABASE_URL: database.url: unknown scheme `u`"));
}

#[test]
fn a_flag_overrides_both_or_changes_nothing() {
    let mut config = Config::parse("", "ichido.toml", &nothing_set).unwrap();
    config.override_url("postgres://db/shop", "--database-url").unwrap();
    assert_eq!(config.database.url.scheme(), "postgres");
    let error = config.override_url("oracle://u:s3cret@db/shop", "--database-url").unwrap_err();
    assert!(error.to_string().starts_with("--database-url: database.url: unknown scheme `oracle`"), "{error}");
    assert_eq!(config.database.url.as_str(), "postgres://db/shop");
    assert_eq!((error.file(), error.line(), error.key()), ("--database-url", None, Some("database.url")));
    assert!(refusal("[database]\nurl = 1").contains("database.url"));
}
