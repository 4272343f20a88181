//! What stores share: everything about queues, claims and parked messages that does not depend on the dialect. For authors
//! of stores; users never need it.

mod bound;
mod claim;
mod claim_index;
mod drained;
mod groups;
mod mapping;
mod migrations;
mod mutex;
mod past;
mod refuse;
mod requests;
mod sample;
mod sent;
mod stats;
mod waiting;
mod warn;

pub use self::{
    bound::{LowerBound, Start},
    claim::{Claims, claim},
    claim_index::ClaimIndex,
    drained::{first_undrained, none_unpublished},
    groups::{Heads, Walk},
    mapping::{Conditions, Mapping},
    migrations::{Migrations, Step},
    mutex::{
        LONGEST_ID, broker_for, broker_queues, found, inbox_id, new_id, no_broker, payload_hash, refuse_publications,
    },
    past::{MOST_KEYS, Note, Owned, Past, by_claim, by_owner, wait_ms},
    refuse::{
        not_columns, refuse_key, refuse_overlaps, refuse_sent_at, refuse_version, unfit, unknown_column, unknown_field,
        unknown_queue, unknown_table,
    },
    requests::{Other, refuse_request_id, requests},
    sample::Sample,
    sent::{Sent, UNIQUE_TRIES, delayed, nothing_kept, refuse_messages, unique_in_motion, unique_taken},
    stats::{
        MOST_STATS, NOTES_AT_A_TIME, STAT_KEY, STAT_VALUES, StatCells, forgotten_before, stat_assignments, stat_columns,
    },
    waiting::Waiting,
    warn::{long_messages, no_claim_index, no_group_index, old_snapshot},
};

/// A backlog is counted up to here: for a progress line that is enough.
pub const MOST_COUNTED: u64 = 100_000;
