//! Whether a topology can be had, without declaring it: for `ichido check`, which changes nothing. What is there is compared by
//! declaring it once more, which the broker answers without doing anything; what is not there is only named.

use lapin::{
    Channel, Connection, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueDeclareOptions},
    types::FieldTable,
};

use super::Topology;
use crate::{Error, Result, Server, Version, error::code, server::answered};

/// What is found at the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopologyLook {
    /// Of the node that answers.
    pub version: Version,
    /// What will be declared.
    pub missing: Vec<String>,
}

impl Topology {
    /// Looks at the broker.
    ///
    /// # Errors
    /// What [`Topology::declare`] would refuse, as far as that can be known without declaring anything.
    pub async fn look(&self, broker: &Server) -> Result<TopologyLook> {
        let version = broker.version().await?;
        self.refuse(version)?;
        let connection = broker.connect("ichido check").await?;
        let looked = async {
            self.can_be_bound(&connection).await?;
            self.missing(&connection).await
        };
        let missing = answered(&format!("inspecting queue {:?}", self.queue), looked).await?;
        Ok(TopologyLook { version, missing })
    }

    /// Refuses to bind to an exchange that is not there, before anything is declared.
    pub(super) async fn can_be_bound(&self, connection: &Connection) -> Result<()> {
        for (exchange, _) in self.bindings.iter().filter(|(exchange, _)| !exchange.is_empty()) {
            if !has_exchange(connection, exchange).await? {
                let queue = &self.queue;
                return Err(Error::Setup(format!("cannot bind queue {queue:?}: exchange {exchange:?} does not exist")));
            }
        }
        Ok(())
    }

    /// What is not there; what is there is as it should be.
    async fn missing(&self, connection: &Connection) -> Result<Vec<String>> {
        let mut missing = Vec::new();
        let exchange = &self.dead_letter_exchange;
        if self.declare && !has_exchange(connection, exchange).await? {
            missing.push(format!("exchange {exchange}"));
        } else {
            self.exchange(&channel(connection).await?).await?;
        }
        let queues = [
            (&self.queue, self.arguments()),
            (&self.dead_letter_queue, self.dead_letter_arguments()),
            (&self.busy_queue, self.busy_arguments()),
        ];
        for (name, arguments) in queues {
            if self.declare && !has_queue(connection, name).await? {
                missing.push(format!("queue {name}"));
            } else {
                self.queue_is(&channel(connection).await?, name, arguments).await?;
            }
        }
        Ok(missing)
    }
}

async fn has_exchange(connection: &Connection, name: &str) -> Result<bool> {
    let options = ExchangeDeclareOptions { passive: true, ..Default::default() };
    let channel = channel(connection).await?;
    let found = channel.exchange_declare(name.into(), ExchangeKind::Direct, options, FieldTable::default()).await;
    is_there(found, || format!("inspecting exchange {name:?}"))
}

async fn has_queue(connection: &Connection, name: &str) -> Result<bool> {
    let options = QueueDeclareOptions { passive: true, ..Default::default() };
    let found = channel(connection).await?.queue_declare(name.into(), options, FieldTable::default()).await;
    is_there(found, || format!("inspecting queue {name:?}"))
}

fn is_there<T>(found: lapin::Result<T>, doing: impl FnOnce() -> String) -> Result<bool> {
    match found {
        Ok(_) => Ok(true),
        Err(error) if code(&error) == Some(404) => Ok(false),
        Err(source) => Err(Error::Broker { doing: doing(), source }),
    }
}

/// One for each question: the broker closes a channel with a no.
async fn channel(connection: &Connection) -> Result<Channel> {
    connection.create_channel().await.map_err(Error::broker("opening a channel"))
}
