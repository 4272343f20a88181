//! The roles of `deploy/roles`, tried on private servers: each can do its own work and nothing beyond it.

use crate::testenv::{Env, Kind, database::Database};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection};

on_servers!(each_role_can_do_its_work_and_no_more);

const POSTGRES: [&str; 2] = [
    include_str!("../../../../deploy/roles/postgres-roles.sql"),
    include_str!("../../../../deploy/roles/postgres-grants.sql"),
];
const MYSQL: [&str; 2] = [
    include_str!("../../../../deploy/roles/mysql-roles.sql"),
    include_str!("../../../../deploy/roles/mysql-grants.sql"),
];

/// What the files leave to the user, as their comments say it.
fn users(kind: Kind) -> String {
    let user = |(user, role): (&str, &str)| match kind {
        Kind::MariaDb => format!(
            "create user '{user}'@'%' identified by 'x'; grant {role} to '{user}'@'%'; set default role {role} for '{user}'@'%';"
        ),
        _ => format!("create role {user} login password 'x' in role {role};"),
    };
    let users = [
        ("deploy", "ichido_migrator"),
        ("orders", "ichido_worker"),
        ("oncall", "ichido_console"),
        ("viewer", "ichido_reader"),
    ];
    let users = users.map(user).concat();
    let owns = if kind == Kind::Postgres { "alter role deploy set role = 'ichido_owner';" } else { "" };
    users + owns
}

const OWN_TABLES: &str = "grant select, insert, update on received_order to ichido_worker; \
    grant select, update on received_order to ichido_console; grant select on received_order to ichido_reader; \
    grant insert on project to ichido_worker; alter table project add constraint twenty check (id < 21); create table salary (id integer, status char(1), process_id varchar(36))";

/// The URL of another user.
fn url_of(url: &str, user: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (_, host) = rest.split_once('@').unwrap();
    format!("{scheme}://{user}:x@{host}")
}

async fn refused(kind: Kind, url: &str, statement: &str) -> bool {
    let statement = AssertSqlSafe(statement);
    let (said, denied) = if kind == Kind::MariaDb {
        let mut connection = MySqlConnection::connect(url).await.unwrap();
        (sqlx::raw_sql(statement).execute(&mut connection).await.map(|_| ()), ["denied", "denied"])
    } else {
        let mut connection = PgConnection::connect(url).await.unwrap();
        (sqlx::raw_sql(statement).execute(&mut connection).await.map(|_| ()), ["permission denied", "must be owner"])
    };
    said.is_err_and(|error| denied.iter().any(|word| error.to_string().contains(word)))
}

async fn each_role_can_do_its_work_and_no_more(kind: Kind) {
    let server = Database::start(kind);
    let env = Env::with_url(kind, server.fresh_database()).await;
    let admin = env.url.clone();
    let files = if kind == Kind::MariaDb { MYSQL } else { POSTGRES };
    env.sql(files[0]).await;
    env.sql(&users(kind)).await;
    let be = |user: &str| {
        let url = url_of(&admin, user);
        env.configure(|config| config.replace(&admin, &url).replace("[process]", "schema = \"ichido\"\n[process]"));
        url
    };
    be("deploy");
    if kind == Kind::MariaDb {
        // It has no right to look into the application's database.
        let database = admin.rsplit('/').next().and_then(|rest| rest.split('?').next()).unwrap();
        env.reconfigure(|config| config.replace(&format!("/{database}?"), "/ichido?"));
    }
    env.ok(&["migrate"]).await;
    env.sql(files[1]).await;
    env.sql(OWN_TABLES).await;

    let worker = be("orders");
    env.send_orders(1..=20).await;
    env.send_orders([21]).await;
    env.ok(&["send", "mail", "{}"]).await;
    env.ok(&["check"]).await;
    env.ok(&["run", "ProjectCreation", "--drain"]).await;
    assert_eq!(env.number("select count(*) from project").await, 20);
    let beyond = [
        "alter table ichido.ichido_message add surplus integer",
        "drop table ichido.ichido_audit",
        "create table ichido.ichido_own (id integer)",
        "update ichido.ichido_schema set oldest = 1",
        "update salary set status = '1'",
        "select status from salary",
    ];
    for statement in beyond {
        assert!(refused(kind, &worker, statement).await, "a worker may: {statement}");
    }

    let reader = be("viewer");
    for command in [&["status"][..], &["failed", "list"], &["audit"]] {
        env.ok(command).await;
    }
    for statement in ["delete from ichido.ichido_parked", "update received_order set status = '0'"] {
        assert!(refused(kind, &reader, statement).await, "a reader may: {statement}");
    }
    assert_ne!(env.run(&["failed", "retry", "--all"]).await.code, Some(0), "a reader may not repair");

    let console = be("oncall");
    env.ok(&["failed", "retry", "--all"]).await;
    env.ok(&["stop", "R1"]).await;
    env.ok(&["unstop", "R1"]).await;
    for statement in ["alter table ichido.ichido_message add surplus integer", "insert into project (id) values (1)"] {
        assert!(refused(kind, &console, statement).await, "the console may: {statement}");
    }
}

#[test]
fn every_table_is_granted_on_mysql() {
    let migrations = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../ichido-mysql/src/migrations")).unwrap();
    let texts = migrations.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let texts = texts.collect::<Vec<_>>().join("\n");
    let tables = texts.split("create table if not exists ").skip(1).filter_map(|rest| rest.split_whitespace().next());
    for table in tables {
        let granted = MYSQL[1].matches(&format!("ichido.{table} to ")).count();
        assert_eq!(granted, 3, "{table}: worker, console and reader");
    }
}
