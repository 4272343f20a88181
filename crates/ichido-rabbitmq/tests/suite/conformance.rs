//! The cases that define a broker, together with each of the stores.

#[path = "../../../ichido-mysql/tests/suite/fixture.rs"]
mod mysql_fixture;
#[path = "../../../ichido-postgres/tests/suite/fixture.rs"]
mod postgres_fixture;
#[path = "../../../ichido-sqlite/tests/suite/fixture.rs"]
mod sqlite_fixture;

mod with_sqlite {
    use super::sqlite_fixture::OnSqlite;
    use crate::fixture::AtRabbitMq;

    ichido_testkit::brokering!(OnSqlite, AtRabbitMq);
    ichido_testkit::exchanging!(OnSqlite, AtRabbitMq);
}

mod with_postgres {
    use super::postgres_fixture::OnPostgres;
    use crate::fixture::AtRabbitMq;

    ichido_testkit::brokering!(OnPostgres, AtRabbitMq);
    ichido_testkit::exchanging!(OnPostgres, AtRabbitMq);
}

mod with_mariadb {
    use super::mysql_fixture::OnMariaDb;
    use crate::fixture::AtRabbitMq;

    ichido_testkit::brokering!(OnMariaDb, AtRabbitMq);
    ichido_testkit::exchanging!(OnMariaDb, AtRabbitMq);
}
