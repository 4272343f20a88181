//! Whether a server is on this host: what goes to any other one crosses a network. Stores, brokers and the command line ask, to warn about
//! connections whose other end nobody has verified.

use std::net::IpAddr;

/// Is this host name or address this machine's own? Only what needs no name server to know it.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match address.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        // A path is a socket on this machine.
        Err(_) => host.is_empty() || host.starts_with('/') || host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn what_crosses_a_network_is_told_from_what_does_not() {
        for local in
            ["localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "/run/postgresql", "::ffff:127.0.0.1"]
        {
            assert!(is_loopback(local), "{local}");
        }
        for other in ["db", "10.0.0.7", "localhost.example.org", "::", "0.0.0.0", "[fe80::1]", "127.0.0.1.example.org"]
        {
            assert!(!is_loopback(other), "{other}");
        }
    }
}
