//! The keys of queues that a broker keeps, `RabbitMQ` and SQS, and of the mutex that guards them in
//! the database.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use ichido::message::{ClaimBy, GuardBy, OnBusy};

use super::document::Node;
use super::error::ConfigError;
use super::field::Field;
use super::section::Section;
use super::url::Url;

pub(super) const RABBITMQ_KEYS: [&str; 11] =
    ["url", "queue", "exchange", "routing_key", "type", "management", "prefetch", "declare", "ca", "cert", "key"];
pub(super) const SQS_KEYS: [&str; 8] =
    ["queue", "region", "endpoint", "fifo", "visibility", "wait", "dead_letter", "declare"];

/// What an SQS queue may have.
const VISIBILITY: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(12);
const LONGEST_WAIT: Duration = Duration::from_secs(20);
pub(super) const MUTEX_KEYS: [&str; 6] = ["publish_deadline", "guard", "claim", "on_busy", "busy_delay", "relay_after"];

/// Keys that earlier versions accepted, each with what is true in place of it.
const REMOVED: [(&str, &str); 1] = [(
    "lock_timeout",
    "ichido never waits for a row that another process holds; `on_busy` decides what happens to the delivery",
)];

/// A `RabbitMQ` queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RabbitMq {
    /// The addresses of the cluster's nodes, one at least.
    pub url: Vec<Url>,
    /// The queue's name there.
    pub queue: String,
    /// The exchange that is published to.
    pub exchange: String,
    /// The routing key that is published with.
    pub routing_key: String,
    /// How the broker keeps the queue.
    pub r#type: RabbitMqType,
    /// The address of the management API.
    pub management: Option<Url>,
    /// Deliveries held at once; none: slots plus read-ahead.
    pub prefetch: Option<u16>,
    /// Whether ichido declares what it needs.
    pub declare: bool,
    /// Whom we trust and who we are, where a connection is encrypted.
    pub tls: TlsFiles,
    /// How deliveries are guarded.
    pub mutex: MutexRules,
}

/// Files in PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities that are trusted.
    pub ca: Option<PathBuf>,
    /// Our own certificate, with those between it and its authority, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// An SQS queue, or one that speaks its API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sqs {
    /// The queue's name or its URL.
    pub queue: String,
    /// The region; none: the one of the environment.
    pub region: Option<String>,
    /// The address of a compatible service.
    pub endpoint: Option<Url>,
    /// How long a delivery is out of sight before it must be renewed.
    pub visibility: Duration,
    /// How long a receive waits for messages.
    pub wait: Duration,
    /// The name or the URL of the dead-letter queue; none: beside the queue.
    pub dead_letter: Option<String>,
    /// Whether ichido creates what it needs.
    pub declare: bool,
    /// How deliveries are guarded.
    pub mutex: MutexRules,
}

/// How the rows in the database guard the deliveries of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MutexRules {
    /// How long the broker may take to confirm a message.
    pub publish_deadline: Duration,
    /// What makes a delivery the first of its message.
    pub guard: GuardBy,
    /// How the row is held while the action runs, when it is written; `Config::claim` knows the default.
    pub claim: Option<ClaimBy>,
    /// What happens to a delivery whose message is being worked on.
    pub on_busy: OnBusy,
    /// After what time a busy delivery comes back.
    pub busy_delay: Duration,
    /// After what time the relay publishes what was committed and not published.
    pub relay_after: Duration,
}

/// How `RabbitMQ` keeps a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RabbitMqType {
    /// Replicated by agreement.
    Quorum,
    /// On one node.
    Classic,
    /// Classic with the ha policy, before `RabbitMQ` 4.0.
    Mirrored,
}

const TYPES: [(&str, RabbitMqType); 3] =
    [("quorum", RabbitMqType::Quorum), ("classic", RabbitMqType::Classic), ("mirrored", RabbitMqType::Mirrored)];
const GUARDS: [(&str, GuardBy); 2] = [("mutex", GuardBy::Mutex), ("inbox", GuardBy::Inbox)];
const CLAIMS: [(&str, ClaimBy); 2] = [("lock", ClaimBy::Lock), ("lease", ClaimBy::Lease)];
const ON_BUSY: [(&str, OnBusy); 2] = [("delay", OnBusy::Delay), ("dead-letter", OnBusy::DeadLetter)];

impl RabbitMq {
    pub(super) fn read(field: &Field) -> Result<Self, ConfigError> {
        let section = field.section()?.without(&REMOVED)?.allow(&[&RABBITMQ_KEYS[..], &MUTEX_KEYS[..]].concat())?;
        let queue = section.required("queue", broker_name)?;
        let exchange = section.or("exchange", String::new(), short_text)?;
        let routing_key = section.or("routing_key", queue.clone(), short_text)?;
        if exchange.is_empty() && routing_key != queue {
            let text = format!(
                "without `exchange`, the routing key must be the queue's name, {queue:?}; remove this key, or set `exchange`"
            );
            return Err(section.invalid("routing_key", text));
        }
        Ok(Self {
            url: section.required("url", addresses)?,
            exchange,
            routing_key,
            queue,
            r#type: section.or("type", RabbitMqType::Quorum, |f| f.one_of(&TYPES))?,
            management: section.optional("management", http)?,
            prefetch: section.optional("prefetch", |f| f.whole(1..=u16::MAX))?,
            declare: section.or("declare", true, Field::flag)?,
            tls: TlsFiles::read(&section)?,
            mutex: MutexRules::read(&section)?,
        })
    }
}

impl TlsFiles {
    fn read(section: &Section) -> Result<Self, ConfigError> {
        let file = |key| section.optional(key, |field| field.filled().map(PathBuf::from));
        let (ca, cert, key) = (file("ca")?, file("cert")?, file("key")?);
        let first = [("ca", &ca), ("cert", &cert), ("key", &key)].into_iter().find(|(_, file)| file.is_some());
        if let Some((first, _)) = first
            && !section
                .required("url", addresses)?
                .iter()
                .chain(&section.optional("management", http)?)
                .any(Url::is_encrypted)
        {
            return Err(
                section.invalid(first, "no address here is encrypted; write `amqps://` in `url`, or remove this key")
            );
        }
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (Some(_), None) => {
                return Err(section.invalid("cert", "`key` is missing: the file with the certificate's key"));
            }
            (None, Some(_)) => {
                return Err(section.invalid("key", "`cert` is missing: the file with the key's certificate"));
            }
        };
        Ok(TlsFiles { ca, identity })
    }
}

impl Sqs {
    pub(super) fn read(field: &Field) -> Result<Self, ConfigError> {
        let section = field.section()?.without(&REMOVED)?.allow(&[&SQS_KEYS[..], &MUTEX_KEYS[..]].concat())?;
        let queue = section.required("queue", sqs_queue)?;
        let fifo = queue.strip_suffix(".fifo").is_some();
        if section.or("fifo", fifo, Field::flag)? != fifo {
            let text = if fifo {
                "a queue whose name ends with `.fifo` is a FIFO queue; remove this key"
            } else {
                "the name of a FIFO queue ends with `.fifo`; change `queue`"
            };
            return Err(section.invalid("fifo", text));
        }
        let seconds = Duration::from_secs;
        Ok(Self {
            queue,
            region: section.optional("region", Field::filled)?,
            endpoint: section.optional("endpoint", http)?,
            visibility: section.or("visibility", seconds(60), |f| whole_seconds(f, VISIBILITY))?,
            wait: section.or("wait", seconds(20), |f| whole_seconds(f, Duration::ZERO..=LONGEST_WAIT))?,
            dead_letter: section.optional("dead_letter", sqs_queue)?,
            declare: section.or("declare", true, Field::flag)?,
            mutex: MutexRules::read(&section)?,
        })
    }

    /// Does it keep the order of groups?
    #[must_use]
    pub fn is_fifo(&self) -> bool {
        self.queue.strip_suffix(".fifo").is_some()
    }

    /// The dead-letter queue: as written, or beside the queue.
    #[must_use]
    pub fn dead_letters(&self) -> String {
        self.dead_letter.clone().unwrap_or_else(|| match self.queue.strip_suffix(".fifo") {
            Some(name) => format!("{name}-dead.fifo"),
            None => format!("{}-dead", self.queue),
        })
    }
}

impl MutexRules {
    fn read(section: &Section) -> Result<Self, ConfigError> {
        let seconds = Duration::from_secs;
        let some_time = |f: &Field| f.duration(Duration::from_millis(1));
        Ok(Self {
            publish_deadline: section.or("publish_deadline", seconds(30), some_time)?,
            guard: section.or("guard", GuardBy::Mutex, |f| f.one_of(&GUARDS))?,
            claim: section.optional("claim", |f| f.one_of(&CLAIMS))?,
            on_busy: section.or("on_busy", OnBusy::Delay, |f| f.one_of(&ON_BUSY))?,
            busy_delay: section.or("busy_delay", seconds(5), some_time)?,
            relay_after: section.or("relay_after", seconds(5), some_time)?,
        })
    }
}

fn addresses(field: &Field) -> Result<Vec<Url>, ConfigError> {
    match field.node {
        Node::List(_) => field.filled_list(amqp),
        _ => amqp(field).map(|url| vec![url]),
    }
}

fn amqp(field: &Field) -> Result<Url, ConfigError> {
    field.parsed(|text| Url::parse(text, &["amqp", "amqps"]))
}

/// An address of the web.
pub(super) fn http(field: &Field) -> Result<Url, ConfigError> {
    field.parsed(|text| Url::parse(text, &["http", "https"]))
}

/// SQS counts in whole seconds.
fn whole_seconds(field: &Field, range: RangeInclusive<Duration>) -> Result<Duration, ConfigError> {
    let time = field.duration(*range.start())?;
    if time > *range.end() || time.subsec_nanos() > 0 {
        return Err(field.wrong(&format!("whole seconds, at most {}", humantime::format_duration(*range.end()))));
    }
    Ok(time)
}

/// The name of a queue, or its URL.
fn sqs_queue(field: &Field) -> Result<String, ConfigError> {
    let text = field.filled()?;
    if text.contains("://") {
        let url = http(field)?;
        // It is told in many places, and credentials come from elsewhere.
        let bare = !url.as_str().contains(['@', '?']);
        return if bare { Ok(text) } else { Err(field.wrong("a queue's URL without a user and a query")) };
    }
    let stem = text.strip_suffix(".fifo").unwrap_or(&text);
    let plain = stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if stem.is_empty() || text.len() > 80 || !plain {
        return Err(field.wrong("a queue's name, of at most 80 letters, digits, hyphens and underscores, or its URL"));
    }
    Ok(text)
}

fn broker_name(field: &Field) -> Result<String, ConfigError> {
    field.filled()?;
    short_text(field)
}

/// A text that AMQP can carry as a name.
fn short_text(field: &Field) -> Result<String, ConfigError> {
    let name = field.text()?;
    if name.len() > 255 || name.chars().any(char::is_control) {
        return Err(field.wrong("a name of at most 255 bytes without control characters"));
    }
    Ok(name.to_owned())
}
