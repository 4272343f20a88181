//! What is right and not supported in this version.

use super::super::ConfigError;
use super::{EXAMPLE, parse, with_action, with_queue, with_table};

#[track_caller]
fn not_built(text: &str, line: usize, key: &str) -> String {
    let error = parse(text).unwrap_err();
    assert!(matches!(error, ConfigError::NotBuilt { .. }), "{error}");
    assert_eq!((error.file(), error.line(), error.key()), ("ichido.toml", Some(line), Some(key)));
    assert!(error.to_string().ends_with("not supported in this version"), "{error}");
    error.to_string()
}

/// A lane set, with this in its second level.
fn lanes(set: &str, level: &str) -> String {
    let levels = format!("{{ level = \"a\", queue = \"a\" }}, {{ level = \"b\", queue = \"b\"{level} }}");
    format!("[lanes.l]\npolicy = \"strict\"\n{set}\nlevels = [{levels}]")
}

#[test]
fn what_tunes_lanes_by_itself_is_not_built() {
    parse(&lanes("auto = false", ", weight = 2")).unwrap();
    let text = not_built(&lanes("auto = true", ""), 3, "lanes.l.auto");
    assert_eq!(text, "ichido.toml:3: lanes.l.auto: not supported in this version");
    parse(&lanes("", ", target = \"1s\"")).unwrap();
    for key in ["weight_range = [1, 5]", "reserve_range = [0, 3]"] {
        let path = format!("lanes.l.levels[1].{}", key.split(' ').next().unwrap());
        not_built(&lanes("", &format!(", {key}")), 4, &path);
    }
}

#[test]
fn of_rabbitmq_both_guards_are_built() {
    let rabbit = |keys: &str| with_queue(&format!("rabbitmq = {{ url = \"amqp://h\", queue = \"x\"{keys} }}"));
    parse(&rabbit("")).unwrap();
    parse(&rabbit(", guard = \"mutex\", type = \"classic\", prefetch = 5, declare = false")).unwrap();
    parse(&rabbit(", management = \"http://h:15672\"")).unwrap();
    parse(&rabbit(", guard = \"inbox\", claim = \"lease\"")).unwrap();
}

#[test]
fn saying_what_this_version_does_anyway_is_no_error() {
    parse(&with_action("isolation = \"read committed\"\ncommit_interval = 1\ncommit_on = []")).unwrap();
    parse(&with_action("commit_interval = \"${X:-1}\"")).unwrap();
    parse("[database]\nsingle_writer = false\ntimeout = \"5s\"").unwrap();
    parse("[process]\nnotify = false").unwrap();
    parse("[retention]\naudit = \"1d\"\nstats = \"1h\"\ninbox = \"2d\"").unwrap();
    parse("[log]\nmask = []\n[retention]\n[dispatch]\n[lanes]").unwrap();
}

#[test]
fn everything_that_is_built_is_accepted() {
    parse(EXAMPLE).unwrap();
    let table = "key = [\"id\"]\nonly = { a = 1 }\non_done = \"delete\"\norder_by = [\"-a\"]";
    parse(&with_table(table)).unwrap();
    parse(&with_queue("payload_limit = 9")).unwrap();
    parse(&with_action("concurrency = 2\nretry = { attempts = 1, first = \"1s\", max = \"1s\", factor = 1 }")).unwrap();
    let process = "lease = \"5s\"\npoll = \"1s\"\ngrace = \"1s\"\nread_ahead = 1";
    parse(&format!("[process]\n{process}\nretry = {{ count = 1 }}")).unwrap();
    parse("[process]\ncheck = \"1s\"\ncheck_every = 5\nsingle = true\nexempt = [\"R1\"]\nexit_duplicate = 50").unwrap();
    parse("[process]\nhandlers = [{ name = \"elapsed\", before = \"read\" }]").unwrap();
    parse(&with_action("handlers = [{ name = \"rate limit\", before = \"read\", options = { per_second = 5 } }]"))
        .unwrap();
    parse("[dispatch]\nbase = \"a\"\nprefix = \"b\"\nsuffix = \"c\"\npatterns = [{ pattern = \"x//\", base = \"y\" }]")
        .unwrap();
    parse("[log]\nformat = \"json\"\nlevel = \"warn\"\nprogress = \"1s\"\nmask = [\"card\"]").unwrap();
    parse(&with_action("http = { url = \"http://h\", headers = { X = \"y\" }, timeout = \"1s\" }")).unwrap();
    parse(&with_action("exec = [\"true\"]")).unwrap();
    parse("[database]\nurl = \"postgres://h/d\"\npool = 4\nschema = \"s\"").unwrap();
}

#[test]
fn a_mistake_is_reported_before_what_is_not_built() {
    let text = lanes("auto = true", "") + "\n[log]\nformat = \"xml\"";
    let error = parse(&text).unwrap_err();
    assert!(matches!(error, ConfigError::Invalid { .. }), "{error}");
}
