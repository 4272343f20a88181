//! What a broker must do together with a store: messages from send to settlement.

pub mod attempts;
pub mod cancels;
pub mod deliveries;
pub mod in_hand;
pub mod inbox;
pub mod lanes;
pub mod outages;
pub mod repairs;
pub(super) mod stage;
