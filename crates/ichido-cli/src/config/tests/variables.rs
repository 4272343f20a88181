//! `${VAR}` in values.

use super::super::{ActionKind, Config, ConfigError};

fn environment(name: &str) -> Option<String> {
    let value = match name {
        "NAME" => "orders",
        "EMPTY" => "",
        "WORKERS" => "12",
        "OFF" => "false",
        "FACTOR" => "1.5",
        "EVIL" => "x\"\npool = 900\n[actions.evil]\nfrom = \"q\" # ${NAME} $${",
        "NUL" => "a\0b",
        _ => return None,
    };
    Some(value.to_owned())
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, "ichido.toml", &environment)
}

/// What becomes of the text of a statement.
fn replaced(text: &str) -> Result<String, String> {
    let text = format!("[queues.q]\n[actions.A]\nfrom = \"q\"\nsql = ['x{text}']");
    match parse(&text).map_err(|error| error.to_string())?.actions.remove("A").map(|a| a.kind) {
        Some(ActionKind::Sql(sql)) => Ok(sql[0][1..].to_owned()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn variables_are_replaced_anywhere_in_a_text() {
    assert_eq!(replaced("${NAME}").as_deref(), Ok("orders"));
    assert_eq!(replaced("a ${NAME}-${NAME} b").as_deref(), Ok("a orders-orders b"));
    assert_eq!(replaced("${EMPTY}").as_deref(), Ok(""));
    assert_eq!(replaced("${UNSET:-x}").as_deref(), Ok("x"));
    assert_eq!(replaced("${UNSET:-}").as_deref(), Ok(""));
    assert_eq!(replaced("${UNSET:-a:-b $1}").as_deref(), Ok("a:-b $1"));
    assert_eq!(replaced("${NAME:-x}").as_deref(), Ok("orders"));
    assert_eq!(replaced("${EMPTY:-x}").as_deref(), Ok("x"));
}

#[test]
fn dollars_that_begin_no_variable_stay() {
    assert_eq!(replaced("$${NAME}").as_deref(), Ok("${NAME}"));
    assert_eq!(replaced("$$${NAME}").as_deref(), Ok("$${NAME}"));
    assert_eq!(replaced("$1 $$ do $x$ {} $").as_deref(), Ok("$1 $$ do $x$ {} $"));
    assert_eq!(replaced("$${ ${NAME} $${").as_deref(), Ok("${ orders ${"));
}

#[test]
fn an_unset_variable_is_named_with_the_key_that_wants_it() {
    let error = parse("[database]\nurl = \"${DB_URL}\"").unwrap_err();
    assert_eq!(
        error.to_string(),
        "ichido.toml:2: database.url: the environment variable DB_URL is not set; \
         set it or write `${DB_URL:-default}`"
    );
    assert_eq!((error.key(), error.line()), (Some("database.url"), Some(2)));
    let list = parse("[queues.q]\n[actions.A]\nfrom = \"q\"\nsql = [\n'a',\n'${B}']").unwrap_err();
    assert!(list.to_string().starts_with("ichido.toml:6: actions.A.sql[1]: the environment variable B"));
}

#[test]
fn what_is_no_variable_is_refused() {
    assert!(replaced("${NAME").unwrap_err().contains("`${` has no closing `}`; write `$${`"));
    for text in ["${}", "${ NAME}", "${1A}", "${A-B}", "${:-x}", "${Ä}"] {
        assert!(replaced(text).unwrap_err().contains("is not a valid variable; write `${NAME}`"), "{text}");
    }
    assert!(replaced("${UNSET:-${NAME}}").unwrap_err().contains("contains another variable"));
}

#[test]
fn the_content_of_a_variable_never_becomes_toml() {
    let config = parse("[queues.q]\n[actions.A]\nfrom = \"q\"\nsql = [\"${EVIL}\"]").unwrap();
    assert_eq!(config.actions.keys().collect::<Vec<_>>(), ["A"]);
    assert_eq!(config.database.pool, None);
    // What a variable contains is not looked through for variables again.
    let ActionKind::Sql(sql) = &config.actions["A"].kind else { panic!("no SQL") };
    assert!(sql[0].ends_with("# ${NAME} $${"));
    let url = parse("[database]\nurl = \"sqlite://${EVIL}\"").unwrap_err().to_string();
    assert!(url.contains("database.url: the address contains a control character"), "{url}");
    let nul = parse("[queues.q]\n[actions.A]\nfrom = \"q\"\nsql = [\"${NUL}\"]").unwrap_err();
    assert!(nul.to_string().contains("contains a NUL character"));
}

#[test]
fn keys_are_never_replaced() {
    let error = parse("\"${NAME}\" = 1").unwrap_err().to_string();
    assert!(error.contains("\"${NAME}\": unknown key"), "{error}");
}

#[test]
fn a_variable_may_stand_for_a_number_or_a_flag() {
    let text = "[queues.q]\npayload_limit = \"${WORKERS}\"\n[actions.A]\nfrom = \"q\"\n\
        concurrency = \"${WORKERS:-4}\"\nretry = { factor = \"${FACTOR}\" }\n\
        [process]\nnotify = \"${OFF}\"\nlease = \"${WORKERS}s\"";
    let config = parse(text).unwrap();
    assert_eq!((config.actions["A"].concurrency, config.queues["q"].payload_limit), (12, 12));
    assert!((config.actions["A"].retry.factor - 1.5).abs() < f64::EPSILON);
    assert_eq!((config.process.notify, config.process.lease.as_secs()), (false, 12));
    let error = parse("[process]\nread_ahead = \"${NAME}\"").unwrap_err().to_string();
    assert!(error.contains("process.read_ahead: found \"orders\", expected a whole number"), "{error}");
}
