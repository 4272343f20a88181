//! ichido over RabbitMQ, on lapin: what talks to the broker, and nothing that knows a database. A publisher sends and learns the
//! fate of each message; a source hands out deliveries and settles them; a topology declares the queues between them. Each comes
//! back by itself when the broker was away.
//!
//! | file | what it does |
//! | --- | --- |
//! | `broker` | where the broker is: one or several URLs, tried in turn |
//! | `version` | which RabbitMQ answers, and so what it can do |
//! | `topology` | the queue, its dead letters, and where busy deliveries wait |
//! | `depths` | how full the queues are |
//! | `link` | one connection, made again when it is lost; its state |
//! | `publisher`, `outgoing` | sends with confirms; what is sent and what became of it |
//! | `source`, `delivery` | receives and settles; what was received |
//! | `header` | the mutex id and the other headers, whatever kind of value they have |
//! | `error` | what can go wrong |

#![forbid(unsafe_code)]

mod broker;
mod delivery;
mod depths;
mod error;
mod header;
mod link;
mod outgoing;
mod publisher;
mod source;
mod topology;
mod version;

pub use self::{
    broker::Broker,
    delivery::Delivery,
    depths::Depths,
    error::{Error, Result},
    header::{ID, Id, ORIGIN, QUEUE, REASON},
    link::State,
    outgoing::{Outgoing, Unpublished},
    publisher::{Publisher, PublisherSettings},
    source::{Settled, Source},
    topology::{Kind, Topology},
    version::Version,
};
