//! Files that are no configuration at all. Whatever they are, they are answered, never a panic.

use std::path::{Path, PathBuf};

use super::super::{Config, ConfigError};
use super::{EXAMPLE, parse, refusal, understand};

/// Something of everything that can be written, to be damaged.
const EVERYTHING: &str = r#"
[database]
url = "postgres://u:p@h/d?password=${P:-x}"
pool = 3
[process]
retry = { time = "1m", interval = "1s", window = "2m", exit = 150 }
handlers = ["loop", { name = "a", before = "b", options = { x = 1 } }]
[queues.t]
table = "\"a.b\".c"
key = ["id"]
status = { column = "s", new = 0, done = true, failed = "f" }
owner = "o"
order_by = ["-a", "b"]
only = { x = "y" }
payload_limit = "1MiB"
[queues.r.rabbitmq]
url = ["amqp://h", "amqps://i"]
queue = "x"
[lanes.l]
policy = "dedicated"
look = 0
level_by = { field = "f", map = { a = "m" }, default = "n" }
[[lanes.l.levels]]
level = "m"
queue = "lm"
concurrency = 2
weight_range = [1, 2]
[[lanes.l.levels]]
level = "n"
queue = "ln"
concurrency = 2
[actions.A]
from = "l"
retry = { attempts = 3, first = "1s", max = "1m", factor = 2.5 }
http = { url = "https://h", headers = { X = "$${y}" } }
[dispatch]
patterns = [{ pattern = "a", base = "b" }]
"#;

/// A file that is gone at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn with(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("ichido-config-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_missing_file_is_named_with_the_ways_to_name_another() {
    let error = Config::load(Path::new("no/such/ichido.toml")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no/such/ichido.toml: no such file; run `ichido init` to create it, or name another with --config or ICHIDO_CONFIG"
    );
    assert!(matches!(error, ConfigError::Unreadable { .. }));
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn a_directory_is_not_a_file() {
    let error = Config::load(&std::env::temp_dir()).unwrap_err().to_string();
    assert!(error.contains(": cannot read file: "), "{error}");
}

#[test]
fn a_file_is_loaded_from_its_path() {
    let file = Scratch::with("good.toml", EXAMPLE.as_bytes());
    assert_eq!(Config::load(&file.0).unwrap().queues.len(), 2);
    let file = Scratch::with("bad.toml", b"[log]\nx = 1\n");
    let error = Config::load(&file.0).unwrap_err();
    assert_eq!(error.file(), file.0.display().to_string());
    assert!(error.to_string().starts_with(&format!("{}:2: log.x:", file.0.display())));
}

#[test]
fn a_file_that_is_not_utf8_is_refused_with_its_line() {
    let file = Scratch::with("latin1.toml", b"[log]\n# ok\nlevel = \"\xe4\"\n");
    let error = Config::load(&file.0).unwrap_err();
    assert_eq!(error.to_string(), format!("{}:3: not UTF-8 text", file.0.display()));
    let utf16 = Scratch::with("utf16.toml", b"\xff\xfe[\0l\0o\0g\0]\0");
    assert!(Config::load(&utf16.0).unwrap_err().to_string().ends_with(":1: not UTF-8 text"));
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_are_fine() {
    let windows = EXAMPLE.replace('\n', "\r\n");
    assert_eq!(parse(&windows).unwrap(), parse(EXAMPLE).unwrap());
    assert_eq!(parse(&format!("\u{feff}{windows}")).unwrap(), parse(EXAMPLE).unwrap());
    assert_eq!(parse("\u{feff}").unwrap(), parse("").unwrap());
    let typo = format!("\u{feff}{}", windows.replace("owner ", "ownr "));
    assert!(refusal(&typo).starts_with("ichido.toml:8: queues.orders.ownr: unknown key"));
}

#[test]
fn comments_and_blank_lines_are_an_empty_file() {
    assert_eq!(parse("\n  \n# nothing\n").unwrap(), parse("").unwrap());
}

#[test]
fn what_is_not_toml_is_refused_with_its_line() {
    let cases = [
        ("[database]\nurl = sqlite", "ichido.toml:2: not valid TOML: string values must be quoted"),
        ("[database\nurl = 1", "ichido.toml:1: not valid TOML: unclosed table"),
        ("\n\n[log]\nmask = [\"a\",\n", "ichido.toml:4: not valid TOML: unclosed array"),
        ("a = 1 b = 2", "ichido.toml:1: not valid TOML: "),
        ("key", "ichido.toml:1: not valid TOML: "),
        ("{\"json\": true}", "ichido.toml:1: not valid TOML: "),
        ("\0\0\0", "ichido.toml:1: not valid TOML: "),
        ("x = \"a\nb\"", "ichido.toml:1: not valid TOML: "),
    ];
    for (text, message) in cases {
        assert!(refusal(text).starts_with(message), "{text:?}: {}", refusal(text));
        assert_eq!(refusal(text).lines().count(), 1);
    }
}

#[test]
fn a_key_that_is_written_twice_is_named() {
    let twice = "[log]\nlevel = \"info\"\nlevel = \"warn\"";
    assert_eq!(refusal(twice), "ichido.toml:3: duplicate key `level`");
    assert_eq!(refusal("[queues.a]\n[queues.a]"), "ichido.toml:2: duplicate key `a`");
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [("[", "]"), ("{a=", "}")] {
        let deep = format!("x = {}1{}", open.repeat(100_000), close.repeat(100_000));
        assert!(refusal(&deep).starts_with("ichido.toml:1: not valid TOML"));
    }
    assert!(refusal(&format!("{}x = 1", "a.".repeat(100_000))).contains("not valid TOML"));
}

#[test]
fn a_long_value_is_cut_in_the_message() {
    let message = refusal(&format!("[log]\nformat = \"{}\"", "ä".repeat(1_000_000)));
    assert!(message.len() < 300 && message.contains("ä…\""), "{}", message.len());
}

#[test]
fn any_beginning_of_a_file_is_answered() {
    understand(EVERYTHING).unwrap();
    for (end, _) in EVERYTHING.char_indices() {
        let _ = parse(&EVERYTHING[..end]);
    }
}

#[test]
fn any_value_may_stand_anywhere() {
    let odd = [
        "[]",
        "[[]]",
        "{}",
        "{ a = {} }",
        "-1",
        "0",
        "9223372036854775807",
        "1e999",
        "nan",
        "-inf",
        "true",
        "\"\"",
        "\"\\u0000\"",
        "\"${\"",
        "\"$\"",
        "\"-\"",
        "\"\\\"\"",
        "2020-01-01",
        "\"18446744073709551615d\"",
        "\"99999999999GiB\"",
        "\"sqlite:\"",
        "\":\"",
        "\"://@\"",
    ];
    let lines: Vec<&str> = EVERYTHING.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let Some((key, _)) = line.split_once(" = ") else {
            continue;
        };
        for value in odd {
            let changed = format!("{key} = {value}");
            let mut text = lines.clone();
            text[at] = &changed;
            let _ = parse(&text.join("\n"));
        }
    }
}

#[test]
fn a_damaged_file_is_answered() {
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap_or_default() % below
    };
    let pieces: Vec<char> = "\"'[]{}=.,#$:-_@\\\0\n\u{feff}é0a ".chars().collect();
    for _ in 0..3_000 {
        let mut text: Vec<char> = EVERYTHING.chars().collect();
        for _ in 0..=random(4) {
            let at = random(text.len());
            match random(3) {
                0 => drop(text.remove(at)),
                1 => text[at] = pieces[random(pieces.len())],
                _ => text.insert(at, pieces[random(pieces.len())]),
            }
        }
        let _ = parse(&text.iter().collect::<String>());
    }
}
