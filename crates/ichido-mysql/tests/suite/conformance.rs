//! The cases that define a store.

use crate::fixture::OnMariaDb;

ichido_testkit::conformance!(OnMariaDb);
ichido_testkit::locking!(OnMariaDb);
ichido_testkit::crashing!(OnMariaDb);
