//! The cases that define a store.

use crate::fixture::OnMariaDb;

ichido_testkit::conformance!(OnMariaDb);
ichido_testkit::locking!(OnMariaDb);
ichido_testkit::crashing!(OnMariaDb);
ichido_testkit::sizing!(OnMariaDb);
ichido_testkit::wrapped_errors!(
    OnMariaDb,
    ["signal sqlstate '40001' set mysql_errno = 1213, message_text = 'deadlock found'"]
);
