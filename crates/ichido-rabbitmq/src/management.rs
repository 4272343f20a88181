//! What AMQP does not tell, and RabbitMQ's management API does: what is out and unacknowledged, who is bound to an exchange; and
//! the policy that mirrors classic queues. The doctor, the reconciler and the start of a process ask here, if an address of the API
//! is given. Every question has an end; no text holds a password.

use std::collections::BTreeSet;

use hyper::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Binding, Error, Kind, Result, Server, Topology, Version, http::Http};

/// So many exchanges are followed that are bound to each other.
const MOST_EXCHANGES: usize = 100;

/// Since this version, a quorum queue for which nobody has said otherwise has this delivery limit.
const DEFAULT_LIMIT: (Version, u64) = (Version::new(4, 0), 20);

/// The management API of a broker, for the vhost that the broker's URLs name. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Management {
    http: Http,
    vhost: String,
}

/// How full a queue is.
///
/// The API collects this about every five seconds (`collect_statistics_interval`), so it is that old at worst: of what has been
/// published or settled meanwhile it knows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Counts {
    /// Waits to be handed out.
    #[serde(rename = "messages_ready")]
    pub ready: u64,
    /// Is handed out and not settled.
    #[serde(rename = "messages_unacknowledged")]
    pub unacknowledged: u64,
    /// Everything: also what a quorum queue keeps until it has arrived where it was dead-lettered to. RabbitMQ 3.10.8 tries that
    /// again after three minutes only, and AMQP shows such a message nowhere.
    #[serde(rename = "messages")]
    pub total: u64,
}

#[derive(Deserialize)]
struct Exchange {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Bound {
    destination: String,
    destination_type: String,
    routing_key: String,
}

impl Management {
    /// The API at this URL, `http://` or `https://`; without a name and a password in it, those of the broker's URL are used.
    ///
    /// # Errors
    /// If it is not such a URL. The text does not repeat it, for it may hold a password.
    pub fn new(url: &str, broker: &Server) -> Result<Self> {
        let (user, password, vhost) = broker.login();
        Ok(Self { http: Http::new(url, user, password, broker.tls())?, vhost: vhost.to_owned() })
    }

    /// How full a queue is; see [`Counts`].
    ///
    /// # Errors
    /// If the API is away, refuses, or there is no such queue. A queue that was declared a moment ago may have no counts yet.
    pub async fn counts(&self, queue: &str) -> Result<Counts> {
        let missing = || Error::Management { doing: counting(queue), why: "it has no counts yet".to_owned() };
        self.counts_so_far(queue).await?.ok_or_else(missing)
    }

    /// The same; none for a queue that was declared a moment ago, and not counted yet.
    pub(crate) async fn counts_so_far(&self, queue: &str) -> Result<Option<Counts>> {
        let found: Value = self.http.get(&self.path(&["queues"], &[queue]), &counting(queue)).await?;
        Ok(serde_json::from_value(found).ok())
    }

    /// The queues that get what is published to an exchange, also through other exchanges. Each of them has the exchange's own
    /// kind and key, unless another exchange stands between: then any message may reach it.
    ///
    /// # Errors
    /// If the API is away, refuses, or there is no such exchange.
    pub async fn bindings(&self, exchange: &str) -> Result<Vec<Binding>> {
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        let mut next = vec![exchange.to_owned()];
        while let Some(name) = next.pop() {
            if !seen.insert(name.clone()) || seen.len() > MOST_EXCHANGES {
                continue;
            }
            let kind = if name == exchange { self.kind(&name).await? } else { "through another".to_owned() };
            for bound in self.bound(&name).await? {
                if bound.destination_type == "exchange" {
                    next.push(bound.destination);
                    continue;
                }
                found.push(Binding {
                    exchange: exchange.to_owned(),
                    kind: Some(kind.clone()),
                    queue: bound.destination,
                    key: bound.routing_key,
                });
            }
        }
        Ok(found)
    }

    /// How often a queue hands a message out before it drops or dead-letters it; none if there is no limit.
    ///
    /// # Errors
    /// If the API is away, refuses, or there is no such queue.
    pub(crate) async fn delivery_limit(&self, queue: &str, broker: &Server) -> Result<Option<u64>> {
        let doing = format!("inspecting queue {queue:?}");
        let found: Value = self.http.get(&self.path(&["queues"], &[queue]), &doing).await?;
        if found["type"] != "quorum" {
            return Ok(None);
        }
        let limits = [&found["arguments"]["x-delivery-limit"], &found["effective_policy_definition"]["delivery-limit"]];
        let limits: Vec<i64> = limits.iter().filter_map(|limit| limit.as_i64()).collect();
        if limits.is_empty() {
            return Ok((broker.version().await? >= DEFAULT_LIMIT.0).then_some(DEFAULT_LIMIT.1));
        }
        // -1 is none.
        Ok(limits.into_iter().filter_map(|limit| u64::try_from(limit).ok()).min())
    }

    /// Sets the policy that mirrors a topology's queue and its dead letters on all nodes. A mirror that does not have everything
    /// never takes over: the queue waits for one that has. A second time changes nothing.
    ///
    /// # Errors
    /// If the API is away or refuses, or the queue is not to be mirrored.
    pub async fn mirror(&self, topology: &Topology) -> Result<()> {
        let Topology { queue, dead_letter_queue, .. } = topology;
        if topology.kind != Kind::Mirrored {
            return Err(Error::Setup(format!("queue {queue:?} is not configured as mirrored")));
        }
        let policy = json!({
            "pattern": format!("^({}|{})$", literally(queue), literally(dead_letter_queue)),
            "apply-to": "queues",
            "definition": {
                "ha-mode": "all",
                "ha-sync-mode": "automatic",
                "ha-promote-on-failure": "when-synced",
                "ha-promote-on-shutdown": "when-synced",
            },
        });
        let path = self.path(&["policies"], &[&format!("ichido {queue}")]);
        let doing = format!("setting the policy that mirrors queue {queue:?}");
        self.http.send(Method::PUT, &path, Some(policy.to_string()), &doing).await.map(drop)
    }

    async fn kind(&self, exchange: &str) -> Result<String> {
        let doing = format!("inspecting exchange {exchange:?}");
        let found: Exchange = self.http.get(&self.exchange(exchange), &doing).await?;
        Ok(found.kind)
    }

    async fn bound(&self, exchange: &str) -> Result<Vec<Bound>> {
        let doing = format!("inspecting the bindings of exchange {exchange:?}");
        let path = format!("{}/bindings/source", self.exchange(exchange));
        self.http.get(&path, &doing).await
    }

    fn exchange(&self, name: &str) -> String {
        self.path(&["exchanges"], &[if name.is_empty() { "amq.default" } else { name }])
    }

    fn path(&self, before: &[&str], after: &[&str]) -> String {
        let names = [before, &[&self.vhost], after].concat();
        names
            .iter()
            .fold("/api".to_owned(), |path, name| format!("{path}/{}", utf8_percent_encode(name, NON_ALPHANUMERIC)))
    }
}

fn counting(queue: &str) -> String {
    format!("counting queue {queue:?}")
}

/// A name as a pattern that fits nothing else.
fn literally(name: &str) -> String {
    name.chars().flat_map(|c| (!c.is_alphanumeric()).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_patterns_and_no_paths() {
        assert_eq!(literally("orders.v1-é|x"), r"orders\.v1\-é\|x");
        let broker = Server::new(["amqp://u:p@h/a%2Fb"]).expect("a URL");
        let management = Management::new("http://h:15672/", &broker).expect("a URL");
        assert_eq!(management.path(&["queues"], &["o/../x y"]), "/api/queues/a%2Fb/o%2F%2E%2E%2Fx%20y");
    }
}
