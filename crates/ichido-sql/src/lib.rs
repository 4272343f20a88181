//! What ichido's SQL stores share, so that a store holds only what its dialect makes different: how queues are mapped to tables, in
//! which order rows are claimed, what a parked row says, how migrations run. Talks to no database; for authors of stores, users never
//! need it.

#![forbid(unsafe_code)]

mod bound;
mod builder;
mod claim;
mod claim_index;
mod connections;
mod deadline;
mod dialect;
mod drained;
mod fault;
mod groups;
mod hosts;
mod implement;
mod is_store;
mod keyset;
mod known;
mod mapping;
mod migrations;
mod mutex;
mod orphans;
mod past;
mod plain;
mod query;
mod queue;
mod refuse;
mod requests;
mod sample;
mod sent;
mod statements;
mod stats;
mod status_column;
mod store;
mod tables;
pub mod verbs;
mod waiting;
mod warn;

pub use self::{
    bound::{LowerBound, Start},
    builder::{OWN, Place, Plan, before_connect, no_tls},
    claim::claim,
    claim_index::{ClaimIndex, OwnerIndex},
    connections::{Connections, Connector, Lent},
    deadline::{Deadline, deadline},
    dialect::Dialect,
    drained::{counts, drained},
    groups::{Heads, QueueGroups, Walk, group_head, next_group},
    hosts::{BeforeConnect, Hosts, Wanted},
    known::Known,
    mapping::{Conditions, Mapping},
    migrations::{Migrations, Step, VERSION},
    mutex::{broker_queues, found, is_about, is_hash_of, new_id, no_broker, payload_hash, refuse_publications},
    orphans::end_orphan,
    past::{Owned, Past, by_claim, by_owner},
    plain::{PlainDialect, send_sql},
    query::{Bind, Cell, FromCell, Query, Row, padded, padded_len},
    queue::{Kind, SqlQueue, headers_of, owners},
    refuse::{
        not_a_table, not_columns, refuse_generated, refuse_key, refuse_overlaps, refuse_sent_at, refuse_version, unfit,
        unknown_column, unknown_field, unknown_queue, unknown_table,
    },
    requests::{Other, requests},
    sample::Sample,
    sent::{NewRow, Sent, UNIQUE_TRIES, delayed, nothing_kept, only_at_broker, unique_in_motion, unique_taken},
    statements::Spelling,
    status_column::StatusColumn,
    store::{Claiming, Grouping, Guarding, LastHeartbeat, Liveness, Sending, SqlRows, SqlStore},
    tables::Tables,
    waiting::Waiting,
    warn::{long_messages, missing_indexes, old_snapshot},
};
