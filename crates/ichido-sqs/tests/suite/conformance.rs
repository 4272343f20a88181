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
