//! ichido over Amazon SQS, or what speaks its API, on the AWS SDK: what talks to the service, and nothing that knows a database. A publisher
//! sends in batches and learns the fate of each message; a subscription asks for deliveries, keeps them out of sight while they are in
//! hand, and settles them; a topology is the queue and its dead-letter queue. Each comes back by itself when the service was away.
//!
//! | file | what it does |
//! | --- | --- |
//! | `server` | where the service is, who we are, and how it is called |
//! | `http` | what the SDK calls by |
//! | `tls` | how connections are encrypted |
//! | `topology` | the queue and its dead letters; whether they are as they should be |
//! | `depths` | how full the queues are |
//! | `sqs`, `deliveries` | a queue as ichido's core knows it: [`ichido::broker::Broker`] and [`ichido::broker::Source`] |
//! | `publisher`, `envelope` | sends in batches; a message as SQS carries it |
//! | `subscription`, `delivery` | hands out deliveries and takes them back; what was received |
//! | `receiving` | asks SQS for as many as there is room for |
//! | `asking` | what a queue was asked, and whether it has more |
//! | `in_hand` | what was received and is not settled, and the order of groups |
//! | `settling` | deletes and changes of visibility, in batches |
//! | `renewal` | keeps out of sight what is in hand |
//! | `dead_letters` | reads dead letters without taking them |
//! | `header` | the attributes that ichido writes and reads |
//! | `error` | what can go wrong |

#![forbid(unsafe_code)]

mod asking;
mod dead_letters;
mod deliveries;
mod delivery;
mod depths;
mod envelope;
mod error;
mod header;
mod http;
mod in_hand;
mod publisher;
mod receiving;
mod renewal;
mod server;
mod settling;
mod sqs;
mod subscription;
#[cfg(any(feature = "tls-rustls-ring", feature = "tls-rustls-aws-lc"))]
mod tls;
#[cfg(not(any(feature = "tls-rustls-ring", feature = "tls-rustls-aws-lc")))]
#[path = "no_tls.rs"]
mod tls;
mod topology;

pub use self::{
    dead_letters::DeadLetters,
    deliveries::Deliveries,
    delivery::Delivery,
    envelope::Envelope,
    error::{Error, Result},
    header::{APP_ID, ENCODING, HEADERS, ID, MESSAGE_ID, ORIGIN, QUEUE, REASON, ROW},
    publisher::Publisher,
    server::Server,
    sqs::{Settings, Sqs},
    subscription::Subscription,
    topology::{Topology, TopologyLook},
};
