//! A TCP proxy in front of PostgreSQL, MariaDB or RabbitMQ that fails on
//! demand: it cuts a connection before or after a COMMIT, or a step of a message,
//! severs all of them, refuses new ones, keeps everything back, or falls silent.
//! Fault tests give its URL to the code under test and look at the outcome past it.
//!
//! It runs on a thread and a runtime of its own, so that a test may block.
//! `plan` decides which one is cut, `silence` who hears nothing any more,
//! `switches` holds what can be switched, `connection` forwards and cuts. What a protocol means is behind the seam in
//! `protocol`: `postgres` and `mysql`. `amqp` stands beside them: there a frame is
//! not answered by the next one.

mod amqp;
mod connection;
mod mysql;
mod plan;
mod postgres;
mod protocol;
mod silence;
mod switches;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::net::TcpStream;
use tokio::runtime;
use tokio::sync::oneshot;

pub use plan::Cut;
use plan::Plans;
use protocol::Session;
pub use silence::{Silence, Whom};
use switches::{Gate, Switches};

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    plans: Arc<Plans>,
    switches: Arc<Switches>,
    thread: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Proxy {
    /// Starts a proxy on a free port of 127.0.0.1 that forwards everything to
    /// `upstream`, a PostgreSQL.
    ///
    /// # Panics
    ///
    /// If there is no free port or no thread to be had.
    #[must_use]
    pub fn start(upstream: SocketAddr) -> Self {
        Self::speaking::<postgres::Session>(upstream)
    }

    /// The same for an `upstream` that is a MariaDB or a MySQL.
    ///
    /// # Panics
    ///
    /// If there is no free port or no thread to be had.
    #[must_use]
    pub fn start_mysql(upstream: SocketAddr) -> Self {
        Self::speaking::<mysql::Session>(upstream)
    }

    /// The same for an `upstream` that is a RabbitMQ.
    ///
    /// # Panics
    ///
    /// If there is no free port or no thread to be had.
    #[must_use]
    pub fn start_amqp(upstream: SocketAddr) -> Self {
        Self::running(upstream, amqp::run)
    }

    fn speaking<S: Session>(upstream: SocketAddr) -> Self {
        Self::running(upstream, connection::run::<S>)
    }

    fn running<R, F>(upstream: SocketAddr, connection: R) -> Self
    where
        R: Fn(TcpStream, SocketAddr, Arc<Plans>, Gate) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let plans = Arc::new(Plans::default());
        let switches = Arc::new(Switches::default());
        let (end, ended) = oneshot::channel();
        let (of_plans, of_switches) = (Arc::clone(&plans), Arc::clone(&switches));
        let serve =
            serve(listener, of_switches, move |client, gate| connection(client, upstream, Arc::clone(&of_plans), gate));
        let thread =
            thread::Builder::new().name("proxy".to_owned()).spawn(move || run(serve, ended)).expect("a thread");
        Self { address, plans, switches, thread: Some((end, thread)) }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL that reaches the same database through this proxy.
    #[must_use]
    pub fn url(&self, database_url: &str) -> String {
        through(database_url, self.address)
    }

    /// From now on cuts every `every`-th COMMIT, until `times` have been cut.
    /// Replaces what was asked before.
    pub fn cut_commits(&self, cut: Cut, every: u32, times: u32) {
        self.cut(cut, every, times);
    }

    /// The same for every `every`-th step that the cut is about.
    pub fn cut(&self, cut: Cut, every: u32, times: u32) {
        self.plans.replace(cut, every, times);
    }

    /// How many have been cut since the last call of `cut` or `cut_commits`.
    #[must_use]
    pub fn cuts(&self) -> u32 {
        self.plans.current().done()
    }

    /// Waits until all that were asked for have been cut.
    pub async fn all_cut(&self) {
        self.plans.current().all_done().await;
    }

    /// How many statements (for RabbitMQ, steps of messages) have passed so far, on all connections.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.switches.silences.passed()
    }

    /// Closes every open connection. What a client sends afterwards does not arrive.
    pub fn sever_all(&self) {
        self.switches.sever();
    }

    /// Stops forwarding in both directions and leaves the connections open: a black hole.
    pub fn hold(&self) {
        self.switches.hold(true);
    }

    /// Waits until the black hole keeps something back.
    pub async fn holding(&self) {
        self.switches.holding().await;
    }

    /// Forwards what was kept back, and everything after it.
    pub fn resume(&self) {
        self.switches.hold(false);
    }

    /// Nobody who is connected now hears anything any more; new connections work. `sever_all` ends it.
    pub fn silence(&self, silence: Silence) {
        self.switches.silences.begin(silence);
    }

    /// The same from the `nth` statement on that is like `pattern`, which is as in SQL's LIKE, without `_`, in any case:
    /// a statement counts when it runs, not when it is parsed. For RabbitMQ, the pattern is about `publish`, `confirm`, `deliver`
    /// and `ack`. Replaces what was asked before.
    pub fn silence_at(&self, silence: Silence, whom: Whom, pattern: &str, nth: u32) {
        self.switches.silences.plan(silence, whom, pattern, nth);
    }

    /// Waits until the silence has begun.
    pub async fn silenced(&self) {
        self.switches.silences.begun().await;
    }

    /// Whether new connections are closed as soon as they are accepted.
    pub fn refuse(&self, refuse: bool) {
        self.switches.refuse(refuse);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            drop(end);
            drop(thread.join());
        }
    }
}

fn run(serve: impl Future<Output = io::Result<()>>, ended: oneshot::Receiver<()>) {
    let runtime = runtime::Builder::new_current_thread().enable_io().build();
    let served = runtime.and_then(|runtime| {
        runtime.block_on(async {
            tokio::select! {
                served = serve => served,
                _ = ended => Ok(()),
            }
        })
    });
    served.expect("the proxy runs until it is dropped");
}

async fn serve<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    switches: Arc<Switches>,
    connection: impl Fn(TcpStream, Gate) -> F,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (client, _) = listener.accept().await?;
        if switches.refuses() {
            continue;
        }
        tokio::spawn(connection(client, switches.gate()));
    }
}

fn through(database_url: &str, address: SocketAddr) -> String {
    let start = database_url.find("://").map_or(0, |at| at + 3);
    let end = database_url[start..].find(['/', '?']).map_or(database_url.len(), |at| start + at);
    let host = database_url[start..end].rfind('@').map_or(start, |at| start + at + 1);
    let (before, after) = (&database_url[..host], &database_url[end..]);
    format!("{before}{address}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_host_and_port_of_a_url_change() {
        let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        for (url, expected) in [
            ("postgres://u:p@h:5432/d?x=y", "postgres://u:p@127.0.0.1:9/d?x=y"),
            ("postgres://u:p%40@[::1]:1/d", "postgres://u:p%40@127.0.0.1:9/d"),
            ("mysql://u:p@h:3306/d?ssl-mode=x", "mysql://u:p@127.0.0.1:9/d?ssl-mode=x"),
            ("postgres://h/d", "postgres://127.0.0.1:9/d"),
            ("postgres://h:1?a=b@c", "postgres://127.0.0.1:9?a=b@c"),
            ("postgres://h", "postgres://127.0.0.1:9"),
        ] {
            assert_eq!(through(url, proxy), expected);
        }
    }
}
