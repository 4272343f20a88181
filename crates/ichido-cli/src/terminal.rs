//! What reaches a terminal. Keys, hosts, payloads and the errors of servers come from outside: a control character in them would move the
//! cursor, hide a line or answer a prompt, and a bidirectional one would show words in another order. `output`, `screen` and the log
//! write them as escapes; nobody else writes to a terminal.

use std::fmt::Write;

/// C0, C1, DEL, the bidirectional controls, and the separators that some programs take for the end of a line.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Lines that change no terminal.
pub(crate) fn escaped(text: &str) -> String {
    without(text, |c| is_control(c) && c != '\n' && c != '\t')
}

/// The same on one line.
pub(crate) fn on_one_line(text: &str) -> String {
    without(text, is_control)
}

fn without(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// The same JSON value, in a spelling that changes no terminal: serde escapes C0 only. These characters stand in strings only.
pub(crate) fn in_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if is_control(c) {
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "\u{1b}[2J\u{7}\u{7f}\u{9b}31m\u{85}\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\r";

    #[test]
    fn no_control_character_is_left() {
        let shown = escaped(&format!("a\n\tb{HOSTILE}日本 ü"));
        assert!(shown.starts_with("a\n\tb\\u{1b}[2J\\u{7}") && shown.ends_with("\\r日本 ü"), "{shown}");
        assert!(shown.chars().all(|c| !is_control(c) || c == '\n' || c == '\t'), "{shown}");
        assert_eq!(on_one_line("a\n\tb"), "a\\n\\tb");
    }

    #[test]
    fn json_means_what_it_meant() {
        let value = serde_json::json!({ HOSTILE: [HOSTILE, "日本 ü", 1.5] });
        let shown = in_json(&value.to_string());
        assert!(!shown.contains(is_control), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
