//! The cases that define a store.

use crate::fixture::OnPostgres;

ichido_testkit::conformance!(OnPostgres);
ichido_testkit::locking!(OnPostgres);
ichido_testkit::crashing!(OnPostgres);
ichido_testkit::sizing!(OnPostgres);
ichido_testkit::wrapped_errors!(
    OnPostgres,
    ["do $$ begin raise exception 'deadlock detected' using errcode = '40P01'; end $$"]
);
