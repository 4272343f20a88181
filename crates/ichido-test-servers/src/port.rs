//! Free ports for the servers beside this file.

use std::net::{Ipv4Addr, TcpListener};

use uuid::Uuid;

/// A port of 127.0.0.1 that was free a moment ago: whoever starts a server on
/// it must be ready to try another one.
pub(super) fn free_port() -> u16 {
    // Not a port the system hands out itself (those begin at 32768): while a
    // server is down, a client that keeps knocking at such a port can be given
    // the very port as its own, and then is connected to itself.
    let below = (0..100).map(|_| 20_000 + random_below(12_000));
    below.chain(std::iter::once(0)).find_map(free).expect("a free port on 127.0.0.1")
}

fn free(port: u16) -> Option<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
    Some(listener.local_addr().ok()?.port())
}

fn random_below(limit: u16) -> u16 {
    let [.., high, low] = Uuid::now_v7().into_bytes();
    u16::from_be_bytes([high, low]) % limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_not_free() {
        let port = free_port();
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("a free port");
        assert_eq!(free(port), None);
        drop(taken);
        assert_eq!(free(port), Some(port));
    }
}
