//! What a process runs now and since when, as its heartbeat carries it to the database: one text of bounded size. Rescue reads it to
//! know what may have begun, `status` to show it. Times are durations at the heartbeat: only the database's clock says when that was.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::MessageId;

/// The longest text, in bytes. A process that runs more than fits says what has run longest.
pub const LONGEST_RUNNING: usize = 60_000;

/// A message that a process runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Running {
    /// Its id, as in commands: queue/key.
    pub id: String,
    /// For how many milliseconds it had run at the heartbeat.
    pub ms: u64,
}

impl Running {
    /// A message that has run for this long.
    #[must_use]
    pub fn new(id: &MessageId, time: Duration) -> Self {
        Running { id: id.to_string(), ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX) }
    }

    /// Writes a list, the first ones if not all fit; none if nothing runs.
    #[must_use]
    pub fn write(list: &[Running]) -> Option<String> {
        let mut text = String::new();
        for running in list {
            let Ok(one) = serde_json::to_string(running) else { continue };
            if text.len() + one.len() + 2 > LONGEST_RUNNING {
                break;
            }
            text.push(if text.is_empty() { '[' } else { ',' });
            text.push_str(&one);
        }
        (!text.is_empty()).then(|| text + "]")
    }

    /// Reads what was written; a text that was torn by a crash says nothing.
    #[must_use]
    pub fn read(text: &str) -> Vec<Running> {
        serde_json::from_str(text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn running(key: &str) -> Running {
        let id = MessageId { queue: "orders".into(), key: Key::new([key]) };
        Running::new(&id, Duration::from_millis(1500))
    }

    #[test]
    fn a_list_is_read_back_as_it_was_written() {
        let list = [running("1"), running("a\"b/é\n")];
        assert_eq!(Running::read(&Running::write(&list).unwrap()), list);
        assert_eq!(Running::write(&[]), None);
    }

    #[test]
    fn a_long_list_keeps_its_first_messages() {
        let list: Vec<_> = (0..1000).map(|at| running(&format!("{at:0>200}"))).collect();
        let text = Running::write(&list).unwrap();
        let kept = Running::read(&text);
        assert!(text.len() <= LONGEST_RUNNING && kept.len() > 200, "{} bytes, {} messages", text.len(), kept.len());
        assert_eq!(kept, list[..kept.len()]);
    }

    #[test]
    fn a_torn_text_says_nothing() {
        assert_eq!(Running::read(r#"[{"id":"orders/1","#), []);
    }
}
