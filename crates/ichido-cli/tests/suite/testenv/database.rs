//! A database server of the test's own, which it may stop and kill; what it has committed survives both.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use ichido_test_servers::{MariaDb, Postgres, proxy::Proxy};

use crate::testenv::Kind;

/// One that is not shared.
pub enum Database {
    Postgres(Postgres),
    MariaDb(MariaDb),
}

impl Database {
    /// One that survives its machine too.
    pub fn start(kind: Kind) -> Self {
        match kind {
            Kind::MariaDb => {
                let durable = [("innodb_flush_log_at_trx_commit", "1"), ("innodb_flush_method", "fsync")];
                Database::MariaDb(MariaDb::start(&durable))
            }
            _ => Database::Postgres(Postgres::start(&[("fsync", "on")])),
        }
    }

    pub fn fresh_database(&self) -> String {
        match self {
            Database::Postgres(server) => server.fresh_database(),
            Database::MariaDb(server) => server.fresh_database(),
        }
    }

    /// A proxy before it.
    pub fn proxy(&self) -> Proxy {
        match self {
            Database::Postgres(server) => Proxy::start(server.address()),
            Database::MariaDb(server) => Proxy::start_mysql(server.address()),
        }
    }

    pub fn end(&self, gracefully: bool) {
        match (self, gracefully) {
            (Database::Postgres(server), true) => server.stop(),
            (Database::Postgres(server), false) => server.kill(),
            (Database::MariaDb(server), true) => server.stop(),
            (Database::MariaDb(server), false) => server.kill(),
        }
    }

    pub fn start_again(&self) {
        match self {
            Database::Postgres(server) => server.start_again(),
            Database::MariaDb(server) => server.start_again(),
        }
    }
}

impl Kind {
    /// A proxy before the server that all tests share.
    pub fn proxy(self) -> Proxy {
        match self {
            Kind::MariaDb => Proxy::start_mysql(MariaDb::shared().address()),
            _ => Proxy::start(Postgres::shared().address()),
        }
    }
}
