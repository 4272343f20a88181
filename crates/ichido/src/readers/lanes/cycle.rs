//! The order of turns under the policy `weighted`: a cycle in which each level has as many turns as its weight, spread out
//! evenly. Who has no message is passed over, and the place in the cycle is all there is to remember.
//!
//! The levels that have work take turns in a cycle too, the same with the others left out. So the share is exact in every
//! window while the same levels have work, wherever in the cycle that begins, and no level that has work is passed over more often
//! than the others have turns. (Credits that are counted up as one goes have to be set to zero when a level joins or leaves, or some
//! windows are wrong; and if levels come and go all the time, a level with a small weight then never has its turn.)

/// Smooth weighted round robin, for one round: each level is as often in it as its weight, divided by what all have in common.
pub(super) fn cycle(weights: &[u32]) -> Box<[usize]> {
    let common = weights.iter().copied().fold(0, greatest_common_divisor).max(1);
    let weights: Vec<i64> = weights.iter().map(|weight| i64::from(weight / common)).collect();
    let total: i64 = weights.iter().sum();
    let mut credits = vec![0; weights.len()];
    let turn = |_| {
        credits.iter_mut().zip(&weights).for_each(|(credit, weight)| *credit += weight);
        // Of equal credits the highest level's comes first.
        let next = (0..credits.len()).rev().max_by_key(|level| credits[*level]).unwrap_or_default();
        credits[next] -= total;
        next
    };
    (0..total).map(turn).collect()
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::cycle;

    #[test]
    fn turns_are_spread_out() {
        assert_eq!(*cycle(&[4, 1]), [0, 0, 1, 0, 0]);
        assert_eq!(*cycle(&[5, 1, 1]), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(*cycle(&[1, 1, 1]), [0, 1, 2]);
    }

    #[test]
    fn what_all_have_in_common_makes_no_longer_cycle() {
        assert_eq!(cycle(&[400, 100]), cycle(&[4, 1]));
        assert_eq!(cycle(&[7]).len(), 1);
        assert_eq!(cycle(&[1000, 999]).len(), 1999);
    }
}
