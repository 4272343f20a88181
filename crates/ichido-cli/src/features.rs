//! What this binary was built with: the features `sqlite`, `postgres`, `mysql`, `rabbitmq`, `sqs`, `metrics`, `telemetry` and `tls-rustls-ring` of the crate, all of them by
//! default, or `tls-rustls-aws-lc`.
//! `open` asks it about the configuration before anything is opened, `--version` tells it.
//!
//! Code of a feature is in files of its own (`open/sqlite.rs`, `brokers/sqs.rs`, `metrics.rs`, `tls.rs` …); where it must be there without the feature too, a
//! file beside it stands in (`brokers/none.rs`, `no_metrics.rs` …). Nothing else in this crate may depend on a feature.

use crate::{
    config::{ActionKind, Config, Url},
    failure::Failure,
};

#[cfg(feature = "mysql")]
pub(crate) use ichido_mysql::VERSION as SCHEMA;
#[cfg(all(feature = "postgres", not(feature = "mysql")))]
pub(crate) use ichido_postgres::VERSION as SCHEMA;
#[cfg(all(feature = "sqlite", not(any(feature = "postgres", feature = "mysql"))))]
pub(crate) use ichido_sqlite::VERSION as SCHEMA;
/// Without a database there are no tables to know.
#[cfg(not(any(feature = "sqlite", feature = "postgres", feature = "mysql")))]
pub(crate) const SCHEMA: u32 = 0;

/// A feature, what it is for, and whether it is in this binary.
struct Feature {
    name: &'static str,
    of: &'static str,
    built: bool,
}

const SQLITE: Feature = Feature { name: "sqlite", of: "SQLite", built: cfg!(feature = "sqlite") };
const POSTGRES: Feature = Feature { name: "postgres", of: "PostgreSQL", built: cfg!(feature = "postgres") };
const MYSQL: Feature = Feature { name: "mysql", of: "MariaDB and MySQL", built: cfg!(feature = "mysql") };
const RABBITMQ: Feature = Feature { name: "rabbitmq", of: "RabbitMQ", built: cfg!(feature = "rabbitmq") };
const SQS: Feature = Feature { name: "sqs", of: "SQS", built: cfg!(feature = "sqs") };
const METRICS: Feature = Feature { name: "metrics", of: "metrics", built: cfg!(feature = "metrics") };
const TELEMETRY: Feature = Feature { name: "telemetry", of: "traces", built: cfg!(feature = "telemetry") };
const RING: Feature = Feature { name: "tls-rustls-ring", of: "TLS", built: cfg!(feature = "tls-rustls-ring") };
const AWS_LC: Feature = Feature { name: "tls-rustls-aws-lc", of: "TLS", built: cfg!(feature = "tls-rustls-aws-lc") };

impl Feature {
    /// Refuses what needs the feature where it is missing.
    fn for_key(&self, key: &str) -> Result<(), Failure> {
        if self.built {
            return Ok(());
        }
        let Feature { name, of, .. } = self;
        let built = built().join(", ");
        Err(Failure::usage(format!(
            "{key}: this ichido was built without {of} (it has: {built}); build it with the feature `{name}`"
        )))
    }
}

/// The features of this binary, by name.
pub(crate) fn built() -> Vec<&'static str> {
    let all = [SQLITE, POSTGRES, MYSQL, RABBITMQ, SQS, METRICS, TELEMETRY, RING, AWS_LC];
    let built: Vec<_> = all.iter().filter(|feature| feature.built).map(|feature| feature.name).collect();
    if built.is_empty() { vec!["no features"] } else { built }
}

/// Refuses a configuration that needs a feature which this binary does not have. Databases and brokers refuse a URL that asks for TLS
/// themselves.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    let database = match config.database.url.scheme() {
        "sqlite" => SQLITE,
        "mysql" | "mariadb" => MYSQL,
        _ => POSTGRES,
    };
    database.for_key("database.url")?;
    if config.telemetry.otlp.is_some() {
        TELEMETRY.for_key("telemetry.otlp")?;
    }
    config.rabbitmq().try_for_each(|(name, _)| RABBITMQ.for_key(&format!("queues.{name}.rabbitmq")))?;
    config.sqs().try_for_each(|(name, _)| SQS.for_key(&format!("queues.{name}.sqs")))?;
    // AWS itself has no other.
    let encrypted = config.sqs().filter(|(_, queue)| queue.endpoint.as_ref().is_none_or(Url::is_encrypted));
    let encrypted = encrypted.map(|(name, _)| format!("queues.{name}.sqs"));
    let actions = config.actions.iter().filter(|(_, action)| encrypts(&action.kind));
    let mut encrypted = encrypted.chain(actions.map(|(name, _)| format!("actions.{name}.http")));
    encrypted.try_for_each(|key| if AWS_LC.built { Ok(()) } else { RING.for_key(&key) })
}

fn encrypts(action: &ActionKind) -> bool {
    matches!(action, ActionKind::Http(http) if http.url.scheme() == "https")
}

/// Refuses `ichido demo` where there is no SQLite.
#[cfg(not(feature = "sqlite"))]
pub(crate) fn no_demo() -> Failure {
    let refused = SQLITE.for_key("ichido demo").expect_err("this is compiled only without the feature");
    Failure::usage(refused.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_feature_is_named_with_the_key_that_needs_it() {
        let missing = Feature { name: "redis", of: "Redis", built: false };
        let refused = missing.for_key("database.url").unwrap_err();
        assert_eq!(refused.code, 127);
        let text = &refused.text;
        assert!(text.starts_with("database.url: this ichido was built without Redis (it has: "), "{text}");
        assert!(text.ends_with("build it with the feature `redis`"), "{text}");
    }

    #[test]
    fn each_database_and_broker_needs_its_feature() {
        let queue = "[queues.q]\nrabbitmq = { url = \"amqp://h\", queue = \"x\" }";
        for (url, feature) in [
            ("sqlite:x.db", SQLITE),
            ("postgres://h/d", POSTGRES),
            ("postgresql://h/d", POSTGRES),
            ("mysql://h/d", MYSQL),
            ("mariadb://h/d", MYSQL),
        ] {
            let config = |rest: &str| {
                let text = format!("[database]\nurl = \"{url}\"\n{rest}");
                Config::parse(&text, "ichido.toml", &|_| None).expect("a configuration")
            };
            assert_eq!(check(&config("")).is_ok(), feature.built, "{url}");
            assert_eq!(check(&config(queue)).is_ok(), feature.built && RABBITMQ.built, "{url}");
            let sqs = |endpoint: &str| format!("[queues.q]\nsqs = {{ queue = \"x\"{endpoint} }}");
            let plain = sqs(", endpoint = \"http://h\"");
            assert_eq!(check(&config(&plain)).is_ok(), feature.built && SQS.built, "{url}");
            let tls = RING.built || AWS_LC.built;
            assert_eq!(check(&config(&sqs(""))).is_ok(), feature.built && SQS.built && tls, "{url}");
            let post = |scheme| format!("[queues.q]\n[actions.A]\nfrom = \"q\"\nhttp = {{ url = \"{scheme}://h/\" }}");
            assert_eq!(check(&config(&post("http"))).is_ok(), feature.built, "{url}");
            assert_eq!(check(&config(&post("https"))).is_ok(), feature.built && tls, "{url}");
        }
    }
}
