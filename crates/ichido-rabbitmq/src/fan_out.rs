//! Whether a message reaches several queues. A mutex is one row for one message, so whoever is first would make the other copies
//! look done: `guard = "mutex"` is refused there, and `guard = "inbox"` is the way. AMQP does not tell who is bound to an
//! exchange. What the process's own topologies bind is known, and with [`Management`](crate::Management) everything is.

use crate::{Error, Result, Topology};

/// Who gets what is published to an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The exchange.
    pub exchange: String,
    /// Its kind: `direct`, `fanout`, `topic`, or another; none if nobody has said.
    pub kind: Option<String>,
    /// The queue.
    pub queue: String,
    /// The binding's key.
    pub key: String,
}

impl Topology {
    /// What this topology binds, of exchanges whose kind follows from their name.
    #[must_use]
    pub fn own_bindings(&self) -> Vec<Binding> {
        let binding = |(exchange, key): &(String, String)| Binding {
            exchange: exchange.clone(),
            kind: standard(exchange).map(str::to_owned),
            queue: self.queue.clone(),
            key: key.clone(),
        };
        self.bindings.iter().map(binding).collect()
    }

    /// Refuses to guard by a mutex what is published to this exchange with this key, if one of the bindings carries it to another
    /// queue too. Of an exchange whose kind is not known, only the same key counts: more cannot be known without the
    /// management API.
    ///
    /// # Errors
    /// With the other queue's name.
    pub fn refuse_fan_out(&self, exchange: &str, routing_key: &str, bindings: &[Binding]) -> Result<()> {
        let reached = |binding: &&Binding| {
            binding.exchange == exchange && binding.queue != self.queue && binding.carries(routing_key)
        };
        // The default exchange brings it to the queue of that name and to no other.
        let Some(other) = bindings.iter().find(reached).filter(|_| !exchange.is_empty()) else {
            return Ok(());
        };
        let (queue, other) = (&self.queue, &other.queue);
        Err(Error::Setup(format!(
            "queue {queue:?}: messages published to exchange {exchange:?} with key {routing_key:?} also reach queue \
             {other:?}, and one mutex cannot guard both: use guard = \"inbox\" for each of them, or publish to \
             {queue:?} by its name"
        )))
    }
}

impl Binding {
    fn carries(&self, routing_key: &str) -> bool {
        match self.kind.as_deref() {
            None | Some("direct") => self.key == routing_key,
            Some("topic") => {
                let words = |key: &str| key.split('.').map(str::to_owned).collect::<Vec<_>>();
                fits(&words(&self.key), &words(routing_key))
            }
            // By headers, by a hash, by nothing at all: any message may.
            Some(_) => true,
        }
    }
}

/// `*` is one word, `#` any number of them.
fn fits(pattern: &[String], words: &[String]) -> bool {
    match (pattern.split_first(), words.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "#" => (0..=words.len()).any(|skipped| fits(rest, &words[skipped..])),
        (Some((first, rest)), Some((word, others))) => (first == "*" || first == word) && fits(rest, others),
        _ => false,
    }
}

/// The kind of an exchange that every broker has.
fn standard(exchange: &str) -> Option<&'static str> {
    match exchange {
        "" | "amq.direct" => Some("direct"),
        "amq.fanout" => Some("fanout"),
        "amq.topic" => Some("topic"),
        "amq.headers" | "amq.match" => Some("headers"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(exchange: &str, kind: Option<&str>, other_key: &str) -> bool {
        let binding = |queue: &str, key: &str| Binding {
            exchange: exchange.to_owned(),
            kind: kind.map(str::to_owned),
            queue: queue.to_owned(),
            key: key.to_owned(),
        };
        let bindings = [binding("orders", "order.new"), binding("audit", other_key)];
        Topology::new("orders").refuse_fan_out(exchange, "order.new", &bindings).is_err()
    }

    #[test]
    fn a_message_that_reaches_two_queues_needs_an_inbox() {
        assert!(refused("shop", Some("direct"), "order.new") && !refused("shop", Some("direct"), "order.paid"));
        assert!(refused("shop", Some("fanout"), "whatever") && refused("shop", Some("headers"), ""));
        assert!(refused("shop", None, "order.new") && !refused("shop", None, "#"), "nobody knows that it is a topic");
        for key in ["#", "order.*", "*.new", "order.#", "order.new.#", "#.new", "order.new"] {
            assert!(refused("shop", Some("topic"), key), "{key}");
        }
        for key in ["*", "order.*.*", "order.paid", "order", "#.paid", ""] {
            assert!(!refused("shop", Some("topic"), key), "{key}");
        }
        assert!(!refused("", Some("direct"), "order.new"), "a queue's own name");
    }

    #[test]
    fn what_a_topology_binds_is_known_without_asking() {
        let mut orders = Topology::new("orders");
        orders.bindings = vec![("amq.topic".to_owned(), "order.*".to_owned()), ("shop".to_owned(), "new".to_owned())];
        let kinds: Vec<_> = orders.own_bindings().into_iter().map(|binding| binding.kind).collect();
        assert_eq!(kinds, [Some("topic".to_owned()), None]);
        let error = Topology::new("audit").refuse_fan_out("shop", "new", &orders.own_bindings()).expect_err("two");
        assert!(["audit", "orders", "shop", "guard = \"inbox\""].iter().all(|word| error.to_string().contains(word)));
    }
}
