//! Which locks statements take on mutex rows. A row that is locked for a moment only, on the way to another one, is busy for whoever
//! is handed its message at that moment; so no statement may read rows that it does not mean.

use ichido::{
    Delivery, Guarded, Inspect, Message, NewMessage, Operate, Queue,
    broker::Found,
    store::{Database, Mutexes, Queues, Transactions},
};
use ichido_mysql::MySql;
use ichido_test_servers as servers;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row};

struct Scene {
    store: MySql,
    outside: MySqlConnection,
    /// Of the messages in it.
    deliveries: Vec<Delivery>,
}

impl Scene {
    async fn new() -> Self {
        let url = servers::MariaDb::shared().fresh_database();
        let store =
            MySql::new(&url, None, 6, false, vec![Queue::broker("paid", Guarded::new("shop", "paid"))]).unwrap();
        store.migrate().await.unwrap();
        let mut tx = store.begin().await.unwrap();
        let messages = vec![NewMessage::new("{}"); 3];
        let sent = store.send(MySql::connection(&mut tx), "paid", &messages).await.unwrap();
        store.commit(tx).await.unwrap();
        let deliveries = sent.into_iter().map(|id| Delivery::unclaimed(Message::new("paid", id.key, *b"{}"))).collect();
        Scene { store, outside: MySqlConnection::connect(&url).await.unwrap(), deliveries }
    }

    async fn run(&mut self, statements: String) {
        sqlx::raw_sql(AssertSqlSafe(statements)).execute(&mut self.outside).await.unwrap();
    }
}

#[tokio::test]
async fn every_statement_about_mutex_rows_goes_by_their_key_or_their_owner() {
    let mut scene = Scene::new().await;
    let keys: Vec<_> = scene.deliveries.iter().map(|delivery| delivery.message.key.columns()[0].clone()).collect();
    let mut explained = 0;
    for statement in scene.store.statements().await.unwrap() {
        let text = format!("explain {}", statement.sql);
        let places = text.matches('?').count();
        // Whatever they stand for, these values are there.
        let explain = (0..places).fold(sqlx::query(AssertSqlSafe(text)), |explain, at| explain.bind(&keys[at % 3]));
        for row in explain.fetch_all(&mut scene.outside).await.unwrap() {
            let (table, index): (Option<String>, Option<String>) = (row.get("table"), row.get("key"));
            let meant = if statement.verb == "rescue" { "ichido_mutex_queue" } else { "PRIMARY" };
            let fits = table.as_deref() != Some("t") || index.as_deref() == Some(meant);
            assert!(fits, "{} goes by {index:?}: {}", statement.verb, statement.sql);
            explained += 1;
        }
    }
    assert!(explained >= 10, "{explained}");
}

#[tokio::test]
async fn what_is_known_about_a_message_is_read_past_the_locks_of_others() {
    let mut scene = Scene::new().await;
    let key = scene.deliveries[0].message.key.to_string();
    let known = format!(
        "insert into ichido_parked (queue, `key`, state, attempts, parked_at, history) values ('paid', '{key}', 'released', 2, utc_timestamp(6), '[]'); \
         begin; select * from ichido_parked for update; \
         insert into ichido_parked (queue, `key`, state, attempts, parked_at, history) values ('paid', 'x', 'dead', 2, utc_timestamp(6), '[]')"
    );
    scene.run(known).await;
    let mut tx = scene.store.begin().await.unwrap();
    let found = scene.store.lock(&mut tx, &scene.deliveries[0]).await.unwrap();
    let Found::Free(standing) = found else { panic!("{found:?}") };
    assert_eq!((standing.failures, standing.parked), (2, true));
    scene.store.rollback(tx).await.unwrap();
    scene.run("rollback".into()).await;
}
