//! What an index on claimable rows is made of. Stores put it together in their dialect.

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
    }
}
