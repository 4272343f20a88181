//! A password that changes while a process is at work, and how many connections the process opens: what the builder is told, the server sees.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ichido::{Error, store::Database};
use ichido_mysql::{MySql, MySqlBuilder, sqlx::mysql::MySqlConnectOptions};
use ichido_test_servers::{
    self as servers,
    proxy::{Proxy, Silence},
};
use ichido_testkit::{
    connections,
    fixture::{Fixture, queues},
};

use crate::fixture::OnMariaDb;

const FIRST: &str = "the-first-secret";

/// A user with a password, which is kept here.
struct Vault {
    proxy: Proxy,
    fixture: OnMariaDb,
    user: String,
    password: Arc<Mutex<String>>,
}

impl Vault {
    async fn new() -> Self {
        let fixture = OnMariaDb::fresh().await;
        let place = fixture.place();
        let user = place.rsplit_once('/').unwrap().1.split('?').next().unwrap().to_owned();
        fixture.sql(&format!("create user {user} identified by '{FIRST}'; grant all on *.* to {user}")).await;
        let proxy = Proxy::start_mysql(servers::MariaDb::shared().address());
        Vault { proxy, fixture, user, password: Arc::new(Mutex::new(FIRST.to_owned())) }
    }

    fn options(&self) -> MySqlConnectOptions {
        let options: MySqlConnectOptions = self.proxy.url(&self.fixture.place()).parse().unwrap();
        options.username(&self.user).password("no password")
    }

    /// A store that asks for the password each time.
    fn builder(&self) -> MySqlBuilder {
        let password = self.password.clone();
        MySql::builder().options(self.options()).queues(queues()).timeout(Duration::from_secs(2)).before_connect(
            move |options| {
                let password = password.lock().unwrap().clone();
                async move { Ok(options.password(&password)) }
            },
        )
    }

    async fn rotate(&self, round: u32) {
        let next = format!("secret {round}");
        self.fixture.sql(&format!("alter user {} identified by '{next}'", self.user)).await;
        *self.password.lock().unwrap() = next;
    }

    fn sessions(&self) -> String {
        format!("select count(*) from information_schema.processlist where user = '{}'", self.user)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_done_while_the_password_changes() {
    let vault = Vault::new().await;
    let store = vault.builder().connections(4, 6).build().unwrap();
    let rotate = async |round| {
        vault.rotate(round).await;
        vault.proxy.sever_all();
    };
    connections::work_is_done_while_the_password_changes(&vault.fixture, store, rotate).await;
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
    let unread = MySql::builder().url(&format!("mysql://keeper:{secret}@127.0.0.1:nonsense/shop")).build().err();
    let wrong = (wrong.build().unwrap(), secret, told);
    connections::nobody_tells_the_password(wrong, "Access denied", locked, unread.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_more_connections_than_stated() {
    let vault = Vault::new().await;
    let store = vault.builder().connections(2, 6).build().unwrap();
    assert_eq!(store.connections().total(), 6 + 4);
    let count = async || vault.fixture.number(&vault.sessions()).await;
    connections::there_are_no_more_connections_than_stated(&vault.fixture, store, count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_connections_as_asked_for_are_opened_at_the_start_and_kept() {
    let vault = Vault::new().await;
    let store = vault.builder().connections(5, 8).build().unwrap();
    let (fixture, count) = (&vault.fixture, async || vault.fixture.number(&vault.sessions()).await);
    connections::as_many_connections_as_asked_for_are_opened_at_the_start_and_kept(fixture, store, 5, count).await;

    for (min, max) in [(4, 3), (0, 2)] {
        let refused = vault.builder().connections(min, max).build();
        assert!(matches!(refused, Err(Error::Setup(_))), "({min}, {max}) was accepted");
    }
    let nameless = MySqlConnectOptions::new().host("localhost");
    assert!(matches!(MySql::builder().options(nameless).build(), Err(Error::Setup(_))), "it names no database");
    assert!(matches!(MySql::builder().build(), Err(Error::Setup(_))), "it is nowhere");
}
