//! The cases that define a broker, together with each of the stores. SQS has no exchanges, so those about them are not for it.

#[path = "../../../ichido-mysql/tests/suite/fixture.rs"]
mod mysql_fixture;
#[path = "../../../ichido-postgres/tests/suite/fixture.rs"]
mod postgres_fixture;
#[path = "../../../ichido-sqlite/tests/suite/fixture.rs"]
mod sqlite_fixture;

mod with_sqlite {
    use super::sqlite_fixture::OnSqlite;
    use crate::fixture::AtSqs;

    ichido_testkit::brokering!(OnSqlite, AtSqs);
}

mod with_postgres {
    use super::postgres_fixture::OnPostgres;
    use crate::fixture::AtSqs;

    ichido_testkit::brokering!(OnPostgres, AtSqs);
}

mod with_mariadb {
    use super::mysql_fixture::OnMariaDb;
    use crate::fixture::AtSqs;

    ichido_testkit::brokering!(OnMariaDb, AtSqs);
}

/// The other server: it makes of the API what its own authors read in it. One store is enough, for only the broker differs. All cases of the suite are
/// for it; this crate's own tests of FIFO queues and of expired receipts are not, because moto forgets a deduplication id with its message, and
/// takes a receipt that has expired.
mod with_sqlite_at_moto {
    use super::sqlite_fixture::OnSqlite;
    use crate::fixture::AtMoto;

    ichido_testkit::brokering!(OnSqlite, AtMoto);
}
