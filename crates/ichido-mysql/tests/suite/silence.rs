//! A server that falls silent: the cases of the testkit, through the proxy, and what only MariaDB can be asked.

use std::time::Duration;

use ichido::store::{Database, SessionId, SessionState, Transactions};
use ichido_mysql::MySql;
use ichido_test_servers::{
    self as servers,
    proxy::{self, Proxy, Whom},
};
use ichido_testkit::{
    cases::silence::{Scene, TIMEOUT},
    eventually,
    fixture::{Fixture, Silence, SilenceFixture, queues},
};
use sqlx::Executor;

use crate::fixture::OnMariaDb;

impl SilenceFixture for OnMariaDb {
    type Line = Proxy;

    const CLAIM: (&'static str, u32) = ("update %received_order% set %process_id% = ?%", 1);
    const CATALOG: &'static str = "%from information_schema.tables%";
    const SESSION: &'static str = "information_schema.processlist where id";

    fn sleep(seconds: u32) -> String {
        format!("select sleep({seconds})")
    }

    fn line(&self) -> Proxy {
        Proxy::start_mysql(servers::MariaDb::shared().address())
    }

    fn store_over(&self, line: Option<&Proxy>, timeout: Duration) -> MySql {
        let url = line.map_or_else(|| self.place(), |line| line.url(&self.place()));
        MySql::new(&url, None, 6, false, queues()).unwrap().timeout(timeout)
    }

    fn silence_at(line: &Proxy, silence: Silence, pattern: &str, nth: u32) {
        line.silence_at(proxy::Silence::of(silence.both), Whom::of(silence.everyone), pattern, nth);
    }

    async fn silenced(line: &Proxy) {
        line.silenced().await;
    }
}

ichido_testkit::silencing!(OnMariaDb);

#[tokio::test(flavor = "multi_thread")]
async fn a_begin_that_is_never_answered() {
    Scene::<OnMariaDb>::silent_at("start transaction; savepoint%", 3, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_connection_tells_what_a_session_does() {
    let scene = Scene::<OnMariaDb>::new(0).await;
    let store = scene.fixture.store_over(None, TIMEOUT);
    let mut tx = store.begin().await.unwrap();
    let session = MySql::session(&tx).unwrap();
    assert!(matches!(store.session_state(&session).await.unwrap(), SessionState::Idle(_)));
    let other = SessionId { since: "1 another:3306:1".into(), ..(*session).clone() };
    assert_eq!(store.session_state(&other).await.unwrap(), SessionState::Gone, "its number is somebody else's now");
    let sleeping = tokio::spawn(async move {
        MySql::connection(&mut tx).execute("do sleep(600)").await.unwrap_err();
    });
    eventually("it works", async || store.session_state(&session).await.unwrap() == SessionState::Working).await;
    scene.fixture.sql(&format!("kill {}", session.number)).await;
    sleeping.await.unwrap();
    eventually("it is gone", async || store.session_state(&session).await.unwrap() == SessionState::Gone).await;
}
