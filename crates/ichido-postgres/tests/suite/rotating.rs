//! A password that changes while a process is at work, and how many connections the process opens: what the builder is told, the server sees.

use std::{
    fs,
    sync::{Arc, Mutex},
    time::Duration,
};

use ichido::{Error, Queue, store::Database};
use ichido_postgres::{
    Postgres, PostgresBuilder,
    sqlx::{
        Connection, PgConnection,
        postgres::{PgConnectOptions, PgSslMode},
    },
};
use ichido_test_servers::{
    self as servers,
    proxy::{Proxy, Silence},
};
use ichido_testkit::{
    connections, eventually,
    fixture::{Fixture, queues},
};

use crate::fixture::OnPostgres;

const FIRST: &str = "the-first-secret";

/// A server that asks one of its roles for a password, which is kept here.
struct Vault {
    server: servers::Postgres,
    proxy: Proxy,
    fixture: OnPostgres,
    password: Arc<Mutex<String>>,
}

impl Vault {
    async fn new() -> Self {
        let server = servers::Postgres::start(&[]);
        let fixture = OnPostgres::at(&server.fresh_database()).await;
        fixture.sql(ichido_testkit::fixture::TABLES).await;
        ichido::Operate::migrate(&fixture.store()).await.unwrap();
        fixture.sql(&format!("create role keeper superuser login password '{FIRST}'")).await;
        let hba = server.folder().join("data/pg_hba.conf");
        let others = fs::read_to_string(&hba).unwrap();
        fs::write(&hba, format!("host all keeper all scram-sha-256\n{others}")).unwrap();
        fixture.sql("select pg_reload_conf()").await;
        let proxy = Proxy::start(server.address());
        let vault = Vault { server, proxy, fixture, password: Arc::new(Mutex::new(FIRST.to_owned())) };
        let wrong = vault.options().password("wrong");
        eventually("passwords count", async || PgConnection::connect_with(&wrong).await.is_err()).await;
        vault
    }

    fn options(&self) -> PgConnectOptions {
        let (address, place) = (self.proxy.address(), self.fixture.place());
        let database = place.rsplit_once('/').unwrap().1.split('?').next().unwrap();
        let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(address.port());
        options.username("keeper").database(database).ssl_mode(PgSslMode::Disable)
    }

    /// A store that asks for the password each time.
    fn builder(&self) -> PostgresBuilder {
        let password = self.password.clone();
        Postgres::builder().options(self.options()).queues(queues()).timeout(Duration::from_secs(2)).before_connect(
            move |options| {
                let password = password.lock().unwrap().clone();
                async move { Ok(options.password(&password)) }
            },
        )
    }

    async fn rotate(&self, round: u32) {
        let next = format!("secret {round}");
        self.fixture.sql(&format!("alter role keeper password '{next}'")).await;
        *self.password.lock().unwrap() = next;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_done_while_the_password_changes() {
    let vault = Vault::new().await;
    let store = vault.builder().connections(4, 6).build().unwrap();
    let rotate = async |round| {
        // What it said last: after a while without news it asks whether the connection still is one.
        let before = "select count(*) from pg_stat_activity where usename = 'keeper' and (query like 'LISTEN%' or query = 'select ''listening''')";
        eventually("it listens", async || vault.fixture.number(before).await > 0).await;
        vault.rotate(round).await;
        vault.proxy.sever_all();
    };
    connections::work_is_done_while_the_password_changes(&vault.fixture, store, rotate).await;
    drop(vault.server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_session_is_ended_after_the_password_has_changed() {
    let vault = Vault::new().await;
    let store = vault.builder().build().unwrap();
    let (rotate, silence) = (async || vault.rotate(1).await, || vault.proxy.silence(Silence::Both));
    connections::a_silent_session_is_ended_after_the_password_has_changed(&vault.fixture, store, rotate, silence).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_tells_the_password() {
    let (vault, secret) = (Vault::new().await, "a-secret-that-is-wrong");
    let wrong = vault.builder().options(vault.options().password(secret)).before_connect(async |options| Ok(options));
    let told = format!("{wrong:?}");
    let locked = vault.builder().before_connect(async |_| Err("the vault is locked".into())).build().unwrap();
    let unread = Postgres::builder().url(&format!("postgres://keeper:{secret}@127.0.0.1:nonsense/shop")).build().err();
    let wrong = (wrong.build().unwrap(), secret, told);
    connections::nobody_tells_the_password(wrong, "password authentication failed", locked, unread.unwrap()).await;
}

fn sessions(name: &str) -> String {
    format!("select count(*) from pg_stat_activity where application_name = '{name}' and datname = current_database()")
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_more_connections_than_stated() {
    let fixture = OnPostgres::fresh().await;
    let url = format!("{}&application_name=counted", fixture.place());
    let store = Postgres::builder().url(&url).queues(queues()).connections(2, 6).build().unwrap();
    assert_eq!(store.connections().total(), 6 + 5);
    let count = async || fixture.number(&sessions("counted")).await;
    connections::there_are_no_more_connections_than_stated(&fixture, store, count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_connections_as_asked_for_are_opened_at_the_start_and_kept() {
    let fixture = OnPostgres::fresh().await;
    let url = format!("{}&application_name=early", fixture.place());
    let mail = || [Queue::managed("mail")];
    let store = Postgres::builder().url(&url).queues(mail()).connections(5, 8).build().unwrap();
    let count = async || fixture.number(&sessions("early")).await;
    connections::as_many_connections_as_asked_for_are_opened_at_the_start_and_kept(&fixture, store, 5, count).await;

    for (min, max) in [(4, 3), (0, 2)] {
        let refused = Postgres::builder().url(&url).connections(min, max).build();
        assert!(matches!(refused, Err(Error::Setup(_))), "({min}, {max}) was accepted");
    }
    assert!(matches!(Postgres::builder().queues(mail()).build(), Err(Error::Setup(_))), "it is nowhere");
}
