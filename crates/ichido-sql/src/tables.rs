//! Where ichido's own tables are.

use ichido::error::Result;

/// The names of ichido's own tables, with their schema, quoted.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the names are those of the tables, without `ichido_`, and of the schema")]
pub struct Tables {
    pub schema_name: Option<String>,
    pub process: String,
    pub process_queue: String,
    pub process_request: String,
    pub request: String,
    pub message: String,
    pub parked: String,
    pub audit: String,
    pub cancel: String,
    pub longest: String,
    pub group: String,
    pub files: String,
    pub stat: String,
    pub origin: String,
    pub mutex: String,
    pub outbox: String,
    pub inbox: String,
    pub relay: String,
    pub chore: String,
    pub idempotency: String,
    pub schema: String,
}

impl Tables {
    /// The tables in this schema, or in the one that the connection is in; `quoted` quotes its name.
    ///
    /// # Errors
    /// What `quoted` said about the name.
    pub fn within(schema: Option<&str>, quoted: impl Fn(&str) -> Result<String>) -> Result<Self> {
        Ok(Tables::new(schema.map(quoted).transpose()?.as_deref()))
    }

    /// The tables in this schema, whose name is quoted already; without one, in the schema that the connection is in.
    #[must_use]
    pub fn new(schema: Option<&str>) -> Self {
        let table = |table: &str| match schema {
            Some(schema) => format!("{schema}.ichido_{table}"),
            None => format!("ichido_{table}"),
        };
        Tables {
            schema_name: schema.map(ToOwned::to_owned),
            process: table("process"),
            process_queue: table("process_queue"),
            process_request: table("process_request"),
            request: table("request"),
            message: table("message"),
            parked: table("parked"),
            audit: table("audit"),
            cancel: table("cancel"),
            longest: table("longest"),
            group: table("group"),
            files: table("files"),
            stat: table("stat"),
            origin: table("origin"),
            mutex: table("mutex"),
            outbox: table("outbox"),
            inbox: table("inbox"),
            relay: table("relay"),
            chore: table("chore"),
            idempotency: table("idempotency"),
            schema: table("schema"),
        }
    }
}
