//! The settings in force, in one line for the log, by their names in `ichido.toml`. Nothing that may be a secret is in it.

use std::{fmt::Write, time::Duration};

use ichido::{
    Masks,
    handlers::{Entry, Limit},
    message::{ClaimBy, OnBusy},
    observe::MASK,
};

use crate::config::{Action, ActionKind, Config, RabbitMq};

/// Parts of names that are those of secrets.
const SECRET: [&str; 11] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "credential",
    "authorization",
    "apikey",
    "accesskey",
    "privatekey",
];

/// All settings that a process runs by, and the arguments it was given.
pub(crate) fn settings(config: &Config, masks: &Masks, arguments: &[(String, String)]) -> String {
    lines(config, masks, arguments).join(" ")
}

/// The same, one after the other.
pub(crate) fn lines(config: &Config, masks: &Masks, arguments: &[(String, String)]) -> Vec<String> {
    let (process, retry, log) = (&config.process, &config.process.retry, &config.log);
    let limit = match retry.limit {
        Limit::Count(count) => format!("count {count}"),
        Limit::Time(time) => format!("time {}", spelled(time)),
    };
    let mut told = vec![
        format!("database.url={}", config.database.url),
        format!("database.pool={}", config.pool()),
        format!("database.timeout={}", spelled(config.database.timeout)),
        format!("process.lease={}", spelled(process.lease)),
        format!("process.poll={}", spelled(process.poll)),
        format!("process.grace={}", spelled(process.grace)),
        format!("process.check={}", spelled(process.check)),
        format!("process.retry=({limit}, interval {}, window {})", spelled(retry.interval), spelled(retry.window)),
        format!("process.single={}", process.single),
        format!("log.level={}", log.level.as_str()),
        format!("log.progress={}", spelled(log.progress)),
        format!("log.mask=[{}]", log.mask.join(", ")),
    ];
    if let Some(otlp) = &config.telemetry.otlp {
        told.push(format!("telemetry.otlp={otlp} telemetry.service={}", config.telemetry.service));
    }
    told.extend(config.rabbitmq().map(|(name, queue)| at_broker(name, queue, config)));
    if let Some(handlers) = &process.handlers {
        told.push(format!("process.handlers=[{}]", entries(handlers, masks)));
    }
    told.extend(config.actions.iter().map(|(name, action)| described(name, action, config, masks)));
    told.extend(arguments.iter().map(|(name, value)| format!("--{name}={}", shown(name, value, masks))));
    told
}

fn at_broker(name: &str, queue: &RabbitMq, config: &Config) -> String {
    let urls = queue.url.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (rules, at) = (&queue.mutex, &queue.queue);
    let claim = match config.claim(rules) {
        ClaimBy::Lock => "lock",
        ClaimBy::Lease => "lease",
    };
    let busy = match rules.on_busy {
        OnBusy::Delay => format!("delay {}", spelled(rules.busy_delay)),
        OnBusy::DeadLetter => "dead letter".into(),
    };
    format!(
        "queues.{name}.rabbitmq=(queue {at} at {urls}, claim {claim}, on busy {busy}, publish deadline {}, relay after {})",
        spelled(rules.publish_deadline),
        spelled(rules.relay_after),
    )
}

fn described(name: &str, action: &Action, config: &Config, masks: &Masks) -> String {
    let kind = match &action.kind {
        ActionKind::Sql(statements) => format!("sql statements {}", statements.len()),
        ActionKind::Http(http) => {
            let headers = http.headers.keys().map(|header| format!("{header}: {MASK}")).collect::<Vec<_>>().join(", ");
            // What follows the `?` is often a key.
            let url = http.url.to_string();
            format!("http to {} with [{headers}]", url.split('?').next().unwrap_or_default())
        }
        ActionKind::Exec(exec) => format!("exec {}", exec.argv.first().map_or("", String::as_str)),
        ActionKind::Rust => "rust".into(),
    };
    let mut told = format!(
        "actions.{name}=({kind}, from {}, concurrency {}, read ahead {}, attempts {}, commit interval {}",
        action.from,
        action.concurrency,
        config.read_ahead(action.concurrency),
        action.retry.attempts,
        action.commit_interval,
    );
    if let Some(limit) = action.timeout {
        let _ = write!(told, ", timeout {}", spelled(limit));
    }
    if let Some(handlers) = &action.handlers {
        let _ = write!(told, ", handlers [{}]", entries(handlers, masks));
    }
    told + ")"
}

fn entries(entries: &[Entry], masks: &Masks) -> String {
    let one = |entry: &Entry| {
        let options = entry.options.iter().map(|(name, value)| format!("{name} {}", shown(name, value, masks)));
        let options = options.collect::<Vec<_>>().join(", ");
        if options.is_empty() { entry.name.clone() } else { format!("{} ({options})", entry.name) }
    };
    entries.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The value of a name, unless one of them tells that it is a secret.
fn shown(name: &str, value: &str, masks: &Masks) -> String {
    let plain: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    let is_secret = masks.covers(name) || SECRET.iter().any(|secret| plain.contains(secret));
    if is_secret { MASK.to_owned() } else { crate::config::masked(value) }
}

fn spelled(time: Duration) -> String {
    humantime::format_duration(time).to_string().replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_in_it() {
        let text = "[database]\nurl = \"postgres://app:s3cret@db/shop\"\n[queues.q]\n\
            [queues.r]\nrabbitmq = { url = \"amqp://u:s3cret@h\", queue = \"x\" }\n\
            [process]\nhandlers = [{ name = \"vault\", before = \"read\", options = { api_key = \"s3cret\", n = 7 } }]\n\
            [actions.A]\nfrom = \"q\"\ntimeout = \"90s\"\n\
            http = { url = \"http://u:s3cret@h/x?key=s3cret\", headers = { X-Token = \"s3cret\" } }\n";
        let config = Config::parse(text, "ichido.toml", &|_| None).unwrap();
        let given = [("day", "7"), ("smtp-password", "s3cret"), ("card", "s3cret"), ("url", "http://u:s3cret@h")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let told = settings(&config, &Masks::new(["card"]), &given);
        assert!(!told.contains("s3cret"), "{told}");
        for part in [
            "postgres://app:***@db/shop",
            "api_key ***, n 7",
            "queues.r.rabbitmq=(queue x at amqp://u:***@h, claim lock, on busy delay 5s",
            "--day=7",
            "--card=***",
            "timeout 1m30s",
            "h/x with [X-Token: ***]",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}
