//! The connections that are open, by the address that they come from. There is always room for another one: when there are as many as there may be,
//! whoever has the most loses the oldest. So clients that are slow, or never end, keep nobody else out, and not even themselves.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ichido::CancellationToken;

/// Those that are open.
#[derive(Clone, Default)]
pub(super) struct Connections(Arc<Mutex<Open>>);

/// By address and number: a lower number is older.
#[derive(Default)]
struct Open {
    last: u64,
    count: usize,
    of: HashMap<IpAddr, BTreeMap<u64, CancellationToken>>,
}

/// A connection's place among them; dropping it leaves it.
pub(super) struct Place {
    all: Connections,
    peer: IpAddr,
    number: u64,
    /// Somebody else needs the place.
    pub(super) lost: CancellationToken,
}

impl Connections {
    /// One more, and no more than `most`.
    pub(super) fn enter(&self, peer: IpAddr, most: usize) -> Place {
        let (peer, lost) = (network(peer), CancellationToken::new());
        let mut open = self.open();
        if open.count >= most {
            open.end_one();
        }
        open.last += 1;
        open.count += 1;
        let number = open.last;
        open.of.entry(peer).or_default().insert(number, lost.clone());
        drop(open);
        Place { all: self.clone(), peer, number, lost }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Ends the oldest connection of whoever has the most.
    fn end_one(&mut self) {
        let oldest = |(peer, theirs): (&IpAddr, &BTreeMap<u64, CancellationToken>)| {
            theirs.keys().next().map(|number| (theirs.len(), Reverse(*number), *peer))
        };
        if let Some((_, Reverse(number), peer)) = self.of.iter().filter_map(oldest).max()
            && let Some(lost) = self.leave(peer, number)
        {
            lost.cancel();
        }
    }

    fn leave(&mut self, peer: IpAddr, number: u64) -> Option<CancellationToken> {
        let theirs = self.of.get_mut(&peer)?;
        let left = theirs.remove(&number)?;
        self.count -= 1;
        if theirs.is_empty() {
            self.of.remove(&peer);
        }
        Some(left)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.open().leave(self.peer, self.number);
    }
}

/// Whose address it is: of IPv6, one host has a whole network.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 4;

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn whoever_has_the_most_connections_loses_the_oldest() {
        let all = Connections::default();
        let few = all.enter(peer(1), MOST);
        let many = [(); 3].map(|()| all.enter(peer(2), MOST));
        let next = all.enter(peer(3), MOST);
        let again = all.enter(peer(2), MOST);
        assert_eq!(many.each_ref().map(|place| place.lost.is_cancelled()), [true, true, false]);
        assert!([few, next, again].iter().all(|place| !place.lost.is_cancelled()));
    }

    #[test]
    fn a_connection_that_has_ended_makes_room() {
        let all = Connections::default();
        let kept = all.enter(peer(1), MOST);
        for _ in 0..100 {
            drop([(); 3].map(|()| all.enter(peer(1), MOST)));
        }
        assert!(!kept.lost.is_cancelled());
        drop(kept);
        let open = all.open();
        assert!(open.count == 0 && open.of.is_empty(), "nothing is remembered");
    }

    #[test]
    fn one_host_has_one_network_of_addresses() {
        let networks = ["2001:db8::1", "2001:db8::2:1", "2001:db8:0:1::1", "::ffff:192.0.2.1"];
        let networks = networks.map(|text| network(text.parse().unwrap()));
        assert_eq!(networks[0], networks[1]);
        assert_ne!(networks[0], networks[2]);
        assert_eq!(networks[3], peer(1));
    }
}
