//! The cases that define a store.

use crate::fixture::OnSqlite;

ichido_testkit::conformance!(OnSqlite);
ichido_testkit::crashing!(OnSqlite);
ichido_testkit::sizing!(OnSqlite);
ichido_testkit::wrapped_errors!(
    OnSqlite,
    ["pragma max_page_count = 1", "insert into ledger values (hex(zeroblob(1000000)), 'large')"]
);
