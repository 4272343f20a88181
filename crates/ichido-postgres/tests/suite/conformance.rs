//! The cases that define a store.

use crate::fixture::OnPostgres;

ichido_testkit::conformance!(OnPostgres);
ichido_testkit::locking!(OnPostgres);
ichido_testkit::crashing!(OnPostgres);
