//! What the indexes on claimable rows and on claimed rows are made of. Stores put them together in their dialect.

use super::Mapping;
use ichido::error::Result;

/// The parts of the index on claimable rows, quoted.
#[derive(Debug)]
pub struct ClaimIndex {
    /// The columns that every claimable row has the same value in: status, owner, what the queue is limited to, group.
    pub common: Vec<String>,
    /// The claim order, ` desc` behind what descends.
    pub order: Vec<String>,
    /// What makes a row claimable.
    pub claimable: Vec<String>,
}

impl ClaimIndex {
    /// The index for this mapping.
    ///
    /// # Errors
    /// What `literal` said about a value.
    pub fn of(mapping: &Mapping, literal: impl Fn(&str) -> Result<String>) -> Result<Self> {
        let down = |down: &bool| if *down { " desc" } else { "" };
        let order = mapping.conditions(&literal)?.order;
        let claimable = mapping.fixed().map(|(column, value)| Ok(format!("{column} = {}", literal(value)?)));
        // Messages of a group are claimed by another index.
        let absent = [Some(&mapping.owner), mapping.group.as_ref()].into_iter().flatten();
        let nobodys = absent.map(|column| Ok(format!("{column} is null")));
        let mut common: Vec<_> = mapping.fixed().map(|(column, _)| column.to_owned()).collect();
        let second = common.len().min(1);
        common.insert(second, mapping.owner.clone());
        common.extend(mapping.group.clone());
        Ok(ClaimIndex {
            common,
            order: order.iter().map(|(column, descends)| format!("{column}{}", down(descends))).collect(),
            claimable: claimable.chain(nobodys).collect::<Result<_>>()?,
        })
    }
}

/// The parts of the index by which the unprocessed rows of a process are found, quoted: only few rows are in it. Where the claim index
/// has the owner in it and holds all rows, none is needed.
#[derive(Debug)]
pub struct OwnerIndex {
    /// The columns that every claimed row has the same value in: status, and what the queue is limited to.
    pub common: Vec<String>,
    /// The owner column.
    pub owner: String,
    /// What makes a row a claimed one.
    pub claimed: Vec<String>,
}

impl OwnerIndex {
    /// The index for this mapping.
    ///
    /// # Errors
    /// What `literal` said about a value.
    pub fn of(mapping: &Mapping, literal: impl Fn(&str) -> Result<String>) -> Result<Self> {
        let owner = mapping.owner.clone();
        let fixed = mapping.fixed().map(|(column, value)| Ok(format!("{column} = {}", literal(value)?)));
        Ok(OwnerIndex {
            common: mapping.fixed().map(|(column, _)| column.to_owned()).collect(),
            claimed: fixed.chain([Ok(format!("{owner} is not null"))]).collect::<Result<_>>()?,
            owner,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ichido::{Status, Table};

    #[test]
    fn the_index_holds_what_can_be_claimed_in_claim_order() {
        let mut table = Table::new("t", "owner", Status::new("status", "new", "done").failed("failed"));
        table = table.only("kind", "mail").order_by(["-priority", "id"]);
        table.group_by = Some("customer".into());
        let quoted = |name: &str| Ok(format!("\"{name}\""));
        let mapping = Mapping::of(&table, "t".into(), vec!["\"id\"".into()], quoted).unwrap();
        let index = ClaimIndex::of(&mapping, |value| Ok(format!("'{value}'"))).unwrap();
        assert_eq!(index.common, ["\"status\"", "\"owner\"", "\"kind\"", "\"customer\""]);
        assert_eq!(index.order, ["\"priority\" desc", "\"id\""]);
        let claimable = "\"status\" = 'new' and \"kind\" = 'mail' and \"owner\" is null and \"customer\" is null";
        assert_eq!(index.claimable.join(" and "), claimable);
        let index = OwnerIndex::of(&mapping, |value| Ok(format!("'{value}'"))).unwrap();
        assert_eq!((index.common.join(", "), &*index.owner), ("\"status\", \"kind\"".into(), "\"owner\""));
        let claimed = "\"status\" = 'new' and \"kind\" = 'mail' and \"owner\" is not null";
        assert_eq!(index.claimed.join(" and "), claimed);
    }
}
