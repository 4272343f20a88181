//! A fleet to look at: a database of its own, a process that works in this one, and the console served beside it. `history` adds an hour that has
//! passed, as the processes of that hour would have written it.

use std::{
    collections::HashSet,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use ichido::{
    Client, Context, Masks, MessageId, Messages as _, Operate as _, Outcome, Pool, Process, Queue, RetryPolicy,
    inspect::MessageState,
    lanes::{LaneSet, Level, Policy},
    process::HandlerQueues,
    stat::{Lane, Stat, Tally},
    store::{ProcessId, Processes as _, Registration, Stats as _},
};
use ichido_console::{Chain, ChainLink, Console, Role, Settings, Token};
use ichido_sqlite::{
    Sqlite,
    sqlx::{self, Connection as _},
};
use ichido_testkit::eventually;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// The secrets of those who may use the console, by role.
pub(crate) const READER: &str = "a-reader-has-this-secret-of-a-good-length";
pub(crate) const OPERATOR: &str = "an-operator-has-this-secret-of-a-good-length";
pub(crate) const ADMIN: &str = "an-admin-has-this-secret-of-a-good-length";

#[derive(Serialize, Deserialize)]
struct Order {
    customer: String,
}

/// All of it. Dropping it ends it.
pub(crate) struct Stage {
    pub(crate) url: String,
    database: String,
    pub(crate) store: Sqlite,
    /// Customers that have an address: the data that orders need.
    pub(crate) addresses: Arc<Mutex<HashSet<String>>>,
    _folder: tempfile::TempDir,
    stop: CancellationToken,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn levels() -> LaneSet {
    LaneSet::new("mail", Policy::Weighted)
        .level(Level::new("vip", "mail_vip").weight(6).reserve(1))
        .level(Level::new("member", "mail_member").weight(3))
        .level(Level::new("free", "mail_free").weight(1))
}

const QUEUES: [&str; 5] = ["orders", "invoices", "mail_vip", "mail_member", "mail_free"];

impl Stage {
    /// With a console that needs no token.
    pub(crate) async fn open() -> Self {
        Self::with(&[]).await
    }

    /// With a console for three people.
    pub(crate) async fn guarded() -> Self {
        let token = |name, role, secret| Token::new(name, role, secret).expect("a secret");
        let tokens = [
            token("rita", Role::Read, READER),
            token("otto", Role::Operate, OPERATOR),
            token("anna", Role::Admin, ADMIN),
        ];
        Self::with(&tokens).await
    }

    async fn with(tokens: &[Token]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path());
        store.migrate().await.expect("tables");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (addresses, stop) = (Arc::default(), CancellationToken::new());
        let process = process(store.clone(), &addresses).stop_on(stop.clone());
        let chains = chains(process_of(store.clone(), &addresses));
        let mut settings = Settings::default();
        settings.config = Some(CONFIG.to_owned());
        settings.chains = chains;
        settings.lease = Some(Duration::from_secs(30));
        settings.workers = vec![("mail".to_owned(), 4)];
        let targets = [2, 30].map(|seconds| Some(Duration::from_secs(seconds)));
        let mut console = Console::builder(store.clone())
            .queues(QUEUES)
            .lanes(levels(), targets.into_iter().chain([None]).collect())
            .mask(Masks::new(["card"]))
            .settings(settings);
        for token in tokens {
            console = console.token(token.clone());
        }
        let service = console.build().router().into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { process.run().await });
        let until = stop.clone();
        tokio::spawn(
            async move { axum::serve(listener, service).with_graceful_shutdown(until.cancelled_owned()).await },
        );
        Stage { url, database: database(folder.path()), store, addresses, _folder: folder, stop }
    }

    /// A process on a host of this name, and a failed message with this key.
    pub(crate) async fn hostile_rows(&self, name: &str) {
        let mut connection = sqlx::SqliteConnection::connect(&self.database).await.expect("a connection");
        let process = "insert into ichido_process (id, request_id, host, pid, version) values (?1, ?2, ?2, 1, ?2)";
        let id = ProcessId::random().to_string();
        sqlx::query(process).bind(id).bind(name).execute(&mut connection).await.expect("a process");
        let failed = "insert into ichido_parked (queue, key, state, attempts, parked_at, history) \
                      values ('orders', ?1, 'dead', 1, '2026-11-18T10:00:00.000Z', '[]')";
        let key = ichido::Key::new([name]).to_string();
        sqlx::query(failed).bind(key).execute(&mut connection).await.expect("a failed message");
        connection.close().await.expect("closed");
    }

    /// A message that belongs to a process that nobody knows.
    pub(crate) async fn orphan(&self) {
        let mut connection = sqlx::SqliteConnection::connect(&self.database).await.expect("a connection");
        let orphan = "insert into ichido_message (queue, owner, payload) values ('invoices', ?1, '{}')";
        let nobody = ProcessId::random().to_string();
        sqlx::query(orphan).bind(nobody).execute(&mut connection).await.expect("a message");
        connection.close().await.expect("closed");
    }

    /// Sends an order.
    pub(crate) async fn order(&self, customer: &str) -> MessageId {
        let order =
            json!({ "customer": customer, "item": "bicycle bell", "price": 19.90, "card": "4111 1111 1111 1111" });
        let orders = Client::new(self.store.clone());
        let sent = orders.queue("orders").header("x-shop", "bicycles").send_and_commit(&order).await;
        sent.expect("an order is sent")
    }

    /// Sends an order that fails for good: its customer has no address.
    pub(crate) async fn failed_order(&self, customer: &str) -> MessageId {
        let id = self.order(customer).await;
        self.reaches(&id, MessageState::Failed).await;
        id
    }

    /// Waits until a message is in this state.
    pub(crate) async fn reaches(&self, id: &MessageId, state: MessageState) {
        eventually("the state of a message", async || {
            let found = self.store.message(id).await.expect("a look at a message").map(|info| info.state);
            if found == Some(state) { Ok(()) } else { Err(format!("{id} is {found:?}")) }
        })
        .await;
    }

    /// Waits until a message is done.
    pub(crate) async fn is_done(&self, id: &MessageId) {
        eventually("a message is done", async || {
            let found = self.store.message(id).await.expect("a look at a message").map(|info| info.state);
            if found.is_none_or(|state| state == MessageState::Done) { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    }

    /// Sends what waits, and an hour that has passed.
    pub(crate) async fn history(&self) {
        let client = Client::new(self.store.clone());
        for (queue, count) in [("invoices", 1300), ("mail_free", 240), ("mail_member", 12)] {
            let all: Vec<_> = (0..count).map(|number| json!({ "number": number, "to": "a customer" })).collect();
            client.queue(queue).send_all_and_commit(&all).await.expect("messages are sent");
        }
        let later = json!({ "number": 2, "note": "ship after the holidays" });
        client.queue("invoices").delay(Duration::from_hours(24)).send_and_commit(&later).await.expect("sent");
        let registration = Registration::new("Hour", Duration::from_secs(30), [("orders".into(), 1)].into());
        let now = self.store.poll(&registration).await.expect("the minute").minute;
        let process = ProcessId::random();
        for ago in 1..60 {
            let minute: Vec<_> = (0..QUEUES.len()).map(|queue| counted(queue, ago)).collect();
            self.store.note_stats(process, now - i64::from(ago), &minute).await.expect("an hour is written");
        }
    }
}

fn database(folder: &Path) -> String {
    format!("sqlite://{}", folder.join("stage.db").display())
}

fn open(folder: &Path) -> Sqlite {
    Sqlite::new(&database(folder), QUEUES.map(Queue::managed).into()).expect("a store")
}

fn process(store: Sqlite, addresses: &Arc<Mutex<HashSet<String>>>) -> Process<Sqlite> {
    process_of(store, addresses).check(Duration::from_millis(200)).poll(Duration::from_millis(100))
}

fn process_of(store: Sqlite, addresses: &Arc<Mutex<HashSet<String>>>) -> Process<Sqlite> {
    let retry =
        RetryPolicy { attempts: 2, first: Duration::from_millis(10), max: Duration::from_millis(10), factor: 1.0 };
    let addresses = addresses.clone();
    Process::new(store).action_closure(
        Pool::new("Ship").from("orders").concurrency(2).retry(retry),
        move |_: &mut Context<Sqlite>, order: Order| {
            let known = addresses.lock().expect("nobody panics with it").contains(&order.customer);
            Box::pin(async move {
                if known || order.customer == "anna" {
                    return Ok(Outcome::Done);
                }
                let why = format!("customer {} has no address: cannot ship the order", order.customer);
                Err(std::io::Error::other(why).into())
            })
        },
    )
}

fn chains(process: Process<Sqlite>) -> Vec<Chain> {
    let HandlerQueues { common, .. } = process.handler_queues().expect("a handler queue");
    let link = |(scope, about): (ichido::handlers::Scope, ichido::handlers::About)| ChainLink {
        handler: about.name.into_owned(),
        scope: scope.to_string(),
        way_in: about.way_in.to_owned(),
        way_out: about.way_out.to_owned(),
        on_error: about.on_error.to_owned(),
    };
    vec![Chain { action: None, links: common.about().map(link).collect() }]
}

/// What a queue did so many minutes ago: the same at every run.
fn counted(queue: usize, ago: u32) -> Stat {
    let wave = 1.0 + 0.5 * (f64::from(ago) / 7.0 + f64::from(u32::try_from(queue).unwrap_or(0))).sin();
    let [per_minute, wait, run] = [
        [320.0, 40.0, 25.0],
        [90.0, 900.0, 120.0],
        [60.0, 120.0, 200.0],
        [110.0, 2600.0, 210.0],
        [40.0, 45_000.0, 190.0],
    ][queue];
    let mut tally = Tally::default();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    let done = (per_minute * wave) as u64;
    (tally.started, tally.done) = (done, done);
    tally.retried = if queue == 0 { done / 40 } else { 0 };
    tally.busy = Duration::from_secs_f64(run * f64::from(u32::try_from(done).unwrap_or(0)) / 1000.0);
    for part in 1..=20_u32 {
        let factor = f64::from(part) / 10.0 * wave;
        tally.waiting.add(Duration::from_secs_f64(wait * factor / 1000.0));
        tally.running.add(Duration::from_secs_f64(run * factor / 1000.0));
    }
    let lane = |level: &str, rank| Some(Lane { lanes: "mail".into(), level: level.into(), rank });
    let lane = [None, None, lane("vip", 0), lane("member", 1), lane("free", 2)][queue].clone();
    Stat { queue: QUEUES[queue].into(), lane, slots: 4, tally }
}

const CONFIG: &str = r#"[database]
url = "sqlite://stage.db"

[queues.orders]
[queues.invoices]

[lanes.mail]
policy = "weighted"
levels = [
    { level = "vip",    queue = "mail_vip",    weight = 6, reserve = 1, target = "2s" },
    { level = "member", queue = "mail_member", weight = 3, target = "30s" },
    { level = "free",   queue = "mail_free",   weight = 1 },
]

[actions.Ship]
from        = "orders"
concurrency = 2
http        = { url = "http://localhost:8080/ship", headers = { authorization = "***" } }
"#;
