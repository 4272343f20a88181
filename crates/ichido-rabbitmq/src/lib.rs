//! ichido over RabbitMQ, on lapin: what talks to the broker, and nothing that knows a database. A publisher sends and learns the
//! fate of each message; a subscription hands out deliveries and settles them; a topology declares the queues between them. Each comes
//! back by itself when the broker was away.
//!
//! | file | what it does |
//! | --- | --- |
//! | `server` | where the broker is: one or several URLs, tried in turn |
//! | `version` | which RabbitMQ answers, and so what it can do |
//! | `topology` | the queue, its dead letters, and where busy deliveries wait |
//! | `fan_out` | whether a message reaches several queues |
//! | `depths` | how full the queues are |
//! | `management`, `http` | what AMQP does not tell: unacknowledged messages, bindings; and the policy that mirrors queues |
//! | `link` | one connection, made again when it is lost; its state |
//! | `rabbitmq`, `deliveries` | a queue as ichido's core knows it: [`ichido::broker::Broker`] and [`ichido::broker::Source`] |
//! | `publisher`, `envelope` | sends with confirms; a message as AMQP carries it |
//! | `subscription`, `delivery` | receives and settles; what was received |
//! | `dead_letters` | reads dead letters without taking them |
//! | `header` | the mutex id and the other headers, whatever kind of value they have |
//! | `error` | what can go wrong |

#![forbid(unsafe_code)]

mod dead_letters;
mod deliveries;
mod delivery;
mod depths;
mod envelope;
mod error;
mod fan_out;
mod header;
mod http;
mod link;
mod management;
mod publisher;
mod rabbitmq;
mod server;
mod shallow;
mod stream;
mod subscription;
#[cfg(any(feature = "tls-rustls-ring", feature = "tls-rustls-aws-lc"))]
mod tls;
#[cfg(not(any(feature = "tls-rustls-ring", feature = "tls-rustls-aws-lc")))]
#[path = "no_tls.rs"]
mod tls;
mod topology;
mod version;

pub use self::{
    dead_letters::DeadLetters,
    deliveries::Deliveries,
    delivery::Delivery,
    depths::Depths,
    envelope::Envelope,
    error::{Error, Result},
    fan_out::Binding,
    header::{ID, Id, ORIGIN, QUEUE, REASON, ROW},
    link::State,
    management::{Counts, Management},
    publisher::{Publisher, PublisherSettings},
    rabbitmq::RabbitMq,
    server::Server,
    subscription::{Settled, Subscription},
    topology::{Kind, Topology, TopologyLook},
    version::Version,
};
