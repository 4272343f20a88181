//! What an operator should know about queues at brokers, as the configuration has them, and about connections whose other end nobody verifies:
//! `check`, `run` and `relay` tell it.

use std::time::Duration;

use ichido::{
    message::{GuardBy, OnBusy},
    store::is_loopback,
};

use crate::{
    config::{Config, RabbitMqType, Url},
    open::Backend,
    program,
};

/// How long RabbitMQ waits for an acknowledgement, unless it is told otherwise.
const ACK_TIMEOUT: Duration = Duration::from_mins(30);

/// The longest time for which SQS hides a message.
const LONGEST_VISIBILITY: Duration = Duration::from_hours(12);

/// Below this, a host that is busy for a while does not renew in time.
const SHORT_VISIBILITY: Duration = Duration::from_secs(10);

/// Servers elsewhere whose certificate is not verified: whoever is on the way reads and changes what goes there, passwords first.
pub(crate) fn about_connections<S: Backend>(store: &S, config: &Config) -> Vec<String> {
    let database = store.unverified().into_iter().map(|server| {
        let key = if config.database.url.scheme().starts_with("postgres") {
            "sslmode=verify-full"
        } else {
            "ssl-mode=VERIFY_IDENTITY"
        };
        format!(
            "database.url: the connection to {server} does not verify the server's certificate; add {key} to the URL"
        )
    });
    let brokers = config.rabbitmq().flat_map(|(name, queue)| {
        let urls = queue.url.iter().map(|url| ("url", url, "amqps")).chain(queue.management.iter().map(|url| ("management", url, "https")));
        let open = urls.filter(|(_, url, _)| !url.is_encrypted() && !is_loopback(url.host()));
        open.map(move |(key, url, scheme)| {
            let host = url.host();
            format!("queues.{name}.rabbitmq.{key}: the connection to {host} is not encrypted; use {scheme}://, with `ca` for an authority of your own")
        })
    });
    let endpoints = config.sqs().filter_map(|(name, queue)| {
        let plain = |url: &&Url| !url.is_encrypted() && !is_loopback(url.host());
        let host = queue.endpoint.as_ref().filter(plain)?.host().to_owned();
        Some(format!("queues.{name}.sqs.endpoint: the connection to {host} is not encrypted; use https://"))
    });
    database.chain(brokers).chain(endpoints).collect()
}

/// What is worth a word.
pub(crate) fn about_brokers(config: &Config) -> Vec<String> {
    let kept = config.rabbitmq().filter_map(|(name, queue)| {
        let about = match queue.r#type {
            RabbitMqType::Quorum => return None,
            RabbitMqType::Mirrored if queue.management.is_some() => return None,
            RabbitMqType::Classic => {
                "a classic queue is on one node, and its messages are lost if that node's disk is lost"
            }
            RabbitMqType::Mirrored => {
                "without `management`, ichido cannot tell whether the policy `ha-mode` is set for the queue"
            }
        };
        Some(format!("queues.{name}.rabbitmq.type: {about}; `quorum` queues are safe"))
    });
    let late = config.actions.iter().filter_map(|(name, action)| {
        let (slots, timeout) = (program::workers(action, config).max(1), action.timeout?);
        let at_broker = program::queues(action, config).into_iter().any(|queue| config.rabbitmq().any(|(at, _)| at == queue));
        // What is read ahead waits for those before it.
        let rounds = u32::try_from(1 + config.read_ahead(slots).div_ceil(slots)).unwrap_or(u32::MAX);
        (at_broker && timeout * rounds > ACK_TIMEOUT).then(|| {
            format!(
                "actions.{name}.timeout: a delivery may stay unacknowledged for {rounds} times {timeout:?}, but RabbitMQ requeues it after \
                 {ACK_TIMEOUT:?} unless its `consumer_timeout` is longer; its effects still happen only once"
            )
        })
    });
    let unknown = config.rabbitmq().filter_map(|(name, queue)| {
        let exchange = &queue.exchange;
        let known = exchange.is_empty() || queue.management.is_some() || queue.mutex.guard != GuardBy::Mutex;
        (!known).then(|| {
            format!(
                "queues.{name}.rabbitmq.guard: without `management`, ichido cannot tell whether messages published to exchange {exchange:?} also reach \
                 other queues, and a mutex guards only one; if they do, use guard = \"inbox\" for each of them"
            )
        })
    });
    kept.chain(late).chain(unknown).chain(about_sqs(config)).collect()
}

fn about_sqs(config: &Config) -> Vec<String> {
    let mut told = Vec::new();
    for (name, queue) in config.sqs() {
        let readers = config.actions.iter().filter(|(_, action)| program::queues(action, config).contains(&name));
        let long = readers.filter_map(|(action, of)| Some((action, of.timeout.filter(|it| *it > LONGEST_VISIBILITY)?)));
        told.extend(long.map(|(action, timeout)| {
            format!(
                "actions.{action}.timeout: SQS hides a delivery for at most {LONGEST_VISIBILITY:?}, and hands it out again while the action \
                 runs for up to {timeout:?}; its effects still happen only once"
            )
        }));
        let readers = config.actions.iter().filter(|(_, action)| program::queues(action, config).contains(&name));
        for (action, _) in readers.filter(|(_, of)| queue.is_fifo() && of.retry.max >= LONGEST_VISIBILITY) {
            told.push(format!(
                "actions.{action}.retry.max: SQS hides a message of a FIFO queue for less than {LONGEST_VISIBILITY:?}; a retry that waits longer is \
                 published anew, behind its group"
            ));
        }
        if queue.visibility < SHORT_VISIBILITY {
            let visibility = queue.visibility;
            told.push(format!(
                "queues.{name}.sqs.visibility: a delivery that is not renewed within {visibility:?}, for example because a host is busy, is \
                 handed out again; use {SHORT_VISIBILITY:?} or more"
            ));
        }
        if queue.mutex.guard == GuardBy::Inbox {
            told.push(format!(
                "queues.{name}.sqs.guard: SQS gives a message another id when its sender sends it again or it is redriven; senders should set the \
                 attribute `message_id`, which stays the same"
            ));
        }
        if queue.is_fifo() && queue.mutex.on_busy == OnBusy::DeadLetter {
            told.push(format!(
                "queues.{name}.sqs.on_busy: a message of a FIFO queue that is dead-lettered while it is busy loses its place in its group; use \"delay\""
            ));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(queue: &str, action: &str) -> Vec<String> {
        let text = format!(
            "[queues.q]\nrabbitmq = {{ url = \"amqp://h\", queue = \"x\"{queue} }}\n[queues.m]\n\
             [actions.A]\nsql = [\"select 1\"]\nconcurrency = 4\n{action}\n"
        );
        about_brokers(&Config::parse(&text, "ichido.toml", &|_| None).expect("a configuration"))
    }

    #[test]
    fn what_takes_longer_than_the_broker_waits_is_worth_a_word() {
        let from = |queue: &str, timeout: &str| format!("from = \"{queue}\"\ntimeout = \"{timeout}\"");
        assert_eq!(warned("", "from = \"q\""), Vec::<String>::new());
        assert_eq!(warned("", &from("q", "15m")), Vec::<String>::new());
        let long = warned("", &from("q", "16m"));
        assert!(
            long.len() == 1 && long[0].starts_with("actions.A.timeout: a delivery may stay unacknowledged for 2 times"),
            "{long:?}"
        );
        assert_eq!(warned("", &from("m", "16m")), Vec::<String>::new(), "no broker has it");
    }

    #[test]
    fn an_exchange_of_which_nobody_knows_who_is_bound_is_worth_a_word() {
        let route = ", exchange = \"shop\", routing_key = \"x\"";
        let unknown = warned(route, "from = \"q\"");
        assert!(unknown.len() == 1 && unknown[0].starts_with("queues.q.rabbitmq.guard: "), "{unknown:?}");
        for known in ["guard = \"inbox\"", "management = \"http://h:15672\""] {
            assert_eq!(warned(&format!("{route}, {known}"), "from = \"q\""), Vec::<String>::new(), "{known}");
        }
    }

    fn of_sqs(queue: &str, action: &str) -> Vec<String> {
        let text =
            format!("[queues.q]\nsqs = {{ {queue} }}\n[actions.A]\nfrom = \"q\"\nsql = [\"select 1\"]\n{action}\n");
        about_brokers(&Config::parse(&text, "ichido.toml", &|_| None).expect("a configuration"))
    }

    #[test]
    fn what_sqs_cannot_hold_is_worth_a_word() {
        assert_eq!(of_sqs("queue = \"x\"", "timeout = \"12h\""), Vec::<String>::new());
        for (queue, action, part) in [
            ("queue = \"x\"", "timeout = \"13h\"", "actions.A.timeout: SQS hides a delivery"),
            ("queue = \"x.fifo\"", "retry = { max = \"12h\" }", "behind its group"),
            ("queue = \"x\", visibility = \"5s\"", "", "queues.q.sqs.visibility: "),
            ("queue = \"x\", guard = \"inbox\"", "", "attribute `message_id`"),
            ("queue = \"x.fifo\", on_busy = \"dead-letter\"", "", "loses its place"),
        ] {
            let told = of_sqs(queue, action);
            assert!(told.len() == 1 && told[0].contains(part), "{told:?}");
        }
    }

    #[test]
    fn a_queue_that_is_not_replicated_for_sure_is_worth_a_word() {
        for (keys, part) in [(", type = \"classic\"", "on one node"), (", type = \"mirrored\"", "`ha-mode`")] {
            let warned = warned(keys, "from = \"q\"");
            assert!(warned.len() == 1 && warned[0].contains(part), "{warned:?}");
        }
        let managed = ", type = \"mirrored\", management = \"http://h:15672\"";
        assert_eq!(warned(managed, "from = \"q\""), Vec::<String>::new());
    }
}
