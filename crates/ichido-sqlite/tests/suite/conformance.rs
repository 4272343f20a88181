//! The cases that define a store.

use crate::fixture::OnSqlite;

ichido_testkit::conformance!(OnSqlite);
ichido_testkit::crashing!(OnSqlite);
