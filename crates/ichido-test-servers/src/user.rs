//! As whom a server runs: database servers refuse to run as root, so a test
//! process that is root hands them to a user without rights. Read by the
//! guardian only.

use std::fs;

/// A user of this machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl User {
    /// Whom to run servers as, if the current user, `current`, is root: the
    /// user `name` or, where there is none, `nobody`. Not root: nobody else.
    pub(super) fn for_servers(current: u32, name: &str) -> Option<Self> {
        if current != 0 {
            return None;
        }
        let passwd = fs::read_to_string("/etc/passwd").expect("/etc/passwd");
        let user = find(&passwd, name).or_else(|| find(&passwd, "nobody"));
        Some(user.unwrap_or_else(|| panic!("as root, tests run servers as user {name} or nobody; there is neither")))
    }
}

fn find(passwd: &str, name: &str) -> Option<User> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next()? == name;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        found.then_some(User { uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\n\npostgres2:x:7:8::/:\npostgres:x:101:104:a,,,:/:\n";
        let user = User { uid: 101, gid: 104 };
        assert_eq!(find(passwd, "postgres"), Some(user));
        assert_eq!(find(passwd, "nobody"), None);
    }

    #[test]
    fn only_root_changes_its_user() {
        assert_eq!(User::for_servers(1000, "nobody"), None);
        assert_ne!(User::for_servers(0, "nobody").expect("a user").uid, 0);
        assert_eq!(User::for_servers(0, "no-such-user"), User::for_servers(0, "nobody"));
    }
}
