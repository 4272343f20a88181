//! The queue and where its dead letters go: made if they are not there, or only looked for. What an operator has set at the queue is left as it
//! is; what gets in the way of exactly-once work is told.

use aws_sdk_sqs::types::QueueAttributeName as Name;

use crate::{Error, Result, Server, envelope::is_fifo, server::TIMEOUT};

/// Fourteen days, the longest time that SQS keeps a message, in seconds.
const RETENTION: &str = "1209600";

/// What is shorter loses messages over a long weekend; in seconds.
const SHORT: u64 = 4 * 24 * 60 * 60;

/// Below this, deliveries that were only busy or released move to the dead letters.
const FEW_RECEIVES: u64 = 100;

/// The longest name of a queue.
const LONGEST_NAME: usize = 80;

/// What one queue needs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Topology {
    /// The queue, by its name or its URL.
    pub queue: String,
    /// The queue in which its dead letters are kept, by its name or its URL.
    pub dead_letter: String,
    /// Whether they are made if they are not there.
    pub declare: bool,
    /// The largest payload that is sent to the queue, in bytes, if that is limited; only [`Topology::look`] asks.
    pub payload_limit: Option<u64>,
}

/// What is found at the service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopologyLook {
    /// What will be made.
    pub missing: Vec<String>,
    /// What an operator should know about the queues as they are.
    pub warnings: Vec<String>,
}

impl Topology {
    /// The queue with its dead letters beside it: `<queue>-dead`, or `<name>-dead.fifo`.
    #[must_use]
    pub fn new(queue: &str) -> Self {
        let dead_letter = match queue.strip_suffix(".fifo") {
            Some(name) => format!("{name}-dead.fifo"),
            None => format!("{queue}-dead"),
        };
        Self { queue: queue.to_owned(), dead_letter, declare: true, payload_limit: None }
    }

    /// Does it keep the order of groups?
    #[must_use]
    pub fn is_fifo(&self) -> bool {
        is_fifo(&self.queue)
    }

    /// Makes what is not there, or refuses to do without it.
    ///
    /// # Errors
    /// What cannot be had.
    pub async fn declare(&self, server: &Server) -> Result<()> {
        self.refuse()?;
        for queue in [&self.dead_letter, &self.queue] {
            if has(server, queue).await? {
                continue;
            }
            if !self.declare {
                return Err(missing(queue));
            }
            make(server, queue).await?;
        }
        Ok(())
    }

    /// Looks at the service and changes nothing.
    ///
    /// # Errors
    /// What [`Topology::declare`] would refuse.
    pub async fn look(&self, server: &Server) -> Result<TopologyLook> {
        self.refuse()?;
        let mut found = TopologyLook::default();
        for queue in [&self.queue, &self.dead_letter] {
            if !has(server, queue).await? {
                if !self.declare {
                    return Err(missing(queue));
                }
                found.missing.push(format!("queue {}", name_of(queue)));
                continue;
            }
            let names = [Name::RedrivePolicy, Name::MessageRetentionPeriod, Name::MaximumMessageSize];
            let set = server.attributes(queue, &names).await?;
            let number = |name| set.get(&name).and_then(|text| text.parse().ok());
            found.warnings.extend(about_retention(name_of(queue), number(Name::MessageRetentionPeriod)));
            found.warnings.extend(about_size(name_of(queue), number(Name::MaximumMessageSize), self.payload_limit));
            if queue == &self.queue {
                let policy = set.get(&Name::RedrivePolicy).map(String::as_str);
                found.warnings.extend(self.about_redrive(policy.filter(|policy| !policy.is_empty())));
            }
        }
        Ok(found)
    }

    /// A redrive policy moves what was received so often, whatever became of it.
    fn about_redrive(&self, policy: Option<&str>) -> Vec<String> {
        let Some(policy) = policy else { return Vec::new() };
        let policy: serde_json::Value = serde_json::from_str(policy).unwrap_or_default();
        let target = policy["deadLetterTargetArn"].as_str().unwrap_or_default();
        let most = &policy["maxReceiveCount"];
        let most = most.as_u64().or_else(|| most.as_str()?.parse().ok()).unwrap_or(10);
        let (queue, dead) = (name_of(&self.queue), name_of(&self.dead_letter));
        let mut told = Vec::new();
        if target.rsplit(':').next() != Some(dead) {
            told.push(format!(
                "the redrive policy of queue {queue} moves messages to {target}, where ichido does not look; set it to {dead}, or remove it"
            ));
        }
        if most < FEW_RECEIVES {
            told.push(format!(
                "the redrive policy of queue {queue} moves a message after {most} receives, and deliveries that were busy or released count; \
                 set maxReceiveCount to {FEW_RECEIVES} or more, or remove the policy: ichido dead-letters by itself"
            ));
        }
        told
    }

    fn refuse(&self) -> Result<()> {
        for queue in [&self.queue, &self.dead_letter] {
            let name = name_of(queue);
            let stem = name.strip_suffix(".fifo").unwrap_or(name);
            let plain = stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
            if stem.is_empty() || name.len() > LONGEST_NAME || !plain {
                return Err(Error::Setup(format!(
                    "the name {name:?} is none for a queue: SQS allows 1 to {LONGEST_NAME} letters, digits, hyphens and underscores"
                )));
            }
        }
        if self.queue == self.dead_letter {
            return Err(Error::Setup(format!("the queue {:?} cannot be its own dead-letter queue", self.queue)));
        }
        Ok(())
    }
}

/// The last part of a URL; a name is its own.
pub(crate) fn name_of(queue: &str) -> &str {
    queue.rsplit('/').next().unwrap_or(queue)
}

fn missing(queue: &str) -> Error {
    Error::Missing(format!("the queue {:?} does not exist; create it, or set declare = true", name_of(queue)))
}

fn about_retention(queue: &str, seconds: Option<u64>) -> Option<String> {
    let seconds = seconds.filter(|seconds| *seconds < SHORT)?;
    let hours = seconds / 3600;
    Some(format!(
        "SQS deletes what is older than {hours} h from queue {queue}; set MessageRetentionPeriod to {RETENTION} (14 days)"
    ))
}

/// Of a queue that does not say, nothing is told.
fn about_size(queue: &str, largest: Option<u64>, payload_limit: Option<u64>) -> Option<String> {
    let (largest, limit) = (largest?, payload_limit?);
    (limit > largest).then(|| {
        format!(
            "payload_limit allows {limit} bytes, but queue {queue} takes {largest} at most, attributes included; lower payload_limit, \
             or raise the queue's MaximumMessageSize (up to 1048576)"
        )
    })
}

async fn has(server: &Server, queue: &str) -> Result<bool> {
    match server.attributes(queue, &[Name::QueueArn]).await {
        Ok(_) => Ok(true),
        Err(Error::Missing(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A second one that makes it at the same time finds it made.
async fn make(server: &Server, queue: &str) -> Result<()> {
    let name = name_of(queue);
    let doing = format!("creating queue {name:?}");
    let call =
        server.client().await?.create_queue().queue_name(name).attributes(Name::MessageRetentionPeriod, RETENTION);
    let call = if is_fifo(name) { call.attributes(Name::FifoQueue, "true") } else { call };
    match server.answer(&doing, TIMEOUT, call.send()).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_code("QueueNameExists") || error.is_code("QueueAlreadyExists") => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_letters_have_a_queue_of_the_same_kind() {
        assert_eq!(Topology::new("orders").dead_letter, "orders-dead");
        assert_eq!(Topology::new("orders.fifo").dead_letter, "orders-dead.fifo");
        assert_eq!(Topology::new("https://h/1/orders.fifo").dead_letter, "https://h/1/orders-dead.fifo");
    }

    #[test]
    fn a_redrive_policy_that_gets_in_the_way_is_told() {
        let policy = |to: &str, most: &str| {
            format!(r#"{{"deadLetterTargetArn":"arn:aws:sqs:eu:1:{to}","maxReceiveCount":{most}}}"#)
        };
        let told = |policy: &str| Topology::new("orders").about_redrive(Some(policy)).len();
        assert_eq!(told(&policy("orders-dead", "1000")), 0);
        assert_eq!(told(&policy("orders-dead", "\"5\"")), 1);
        assert_eq!(told(&policy("elsewhere", "5")), 2);
        assert!(Topology::new("orders").about_redrive(None).is_empty());
    }

    #[test]
    fn short_retention_is_told() {
        assert_eq!(about_retention("q", Some(345_600)), None);
        assert!(about_retention("q", Some(3600)).unwrap().contains("older than 1 h"));
    }

    #[test]
    fn a_payload_limit_above_the_queues_own_is_told() {
        assert_eq!(about_size("q", Some(1024), Some(1024)), None);
        assert_eq!(about_size("q", Some(1024), None), None);
        assert!(about_size("q", Some(1024), Some(1025)).unwrap().contains("queue q takes 1024 at most"));
    }

    #[test]
    fn names_that_sqs_does_not_take_are_refused() {
        let refused = |queue: &str, dead: &str| {
            let topology = Topology { dead_letter: dead.to_owned(), ..Topology::new(queue) };
            topology.refuse().is_err()
        };
        assert!(!refused("orders_1-x.fifo", "d"));
        assert!(refused("", "d") && refused("a b", "d") && refused(&"q".repeat(81), "d") && refused("q", "q"));
    }
}
