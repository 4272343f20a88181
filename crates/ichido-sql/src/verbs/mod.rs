//! The verbs that all SQL stores have in common, each written once over [`SqlStore`](crate::SqlStore). They are about ichido's own tables;
//! what they say about a queue's rows is a statement of the store's. Here a parked row and the queue's row change in one transaction.

pub mod answers;
pub mod audit;
pub mod cancel;
pub mod doctor;
pub mod files;
pub mod flags;
pub mod groups;
pub mod inbox;
pub mod inspect;
pub mod leases;
pub mod listing;
pub mod messages;
pub mod moving;
pub mod outbox;
pub mod parked;
pub mod parked_pages;
pub mod processes;
pub mod queues;
pub mod rescue;
pub mod stats;
pub(crate) mod suspects;
