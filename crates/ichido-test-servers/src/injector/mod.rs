//! An HTTP proxy in front of an SQS that does on demand what Amazon's does on its bad days: it delivers messages twice and in another
//! order, lets receipts expire, says that a queue is empty when it is not, fails single entries of a batch, throttles, and cuts connections
//! before and after the server has acted. It also counts the calls, which is what Amazon bills.
//!
//! It runs on a thread and a runtime of its own, so that a test may block. `faults` says how often each fault happens, `ledger` keeps
//! the chance and the counts, `exchange` is one request and its answer, `rewrite` changes what is in them, `upstream` asks the server.

mod exchange;
mod faults;
mod ledger;
mod rewrite;
mod upstream;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::runtime;
use tokio::sync::oneshot;

use exchange::Exchange;
pub use faults::{Fault, Faults};
use ledger::Ledger;

use super::sqs_api::Api;

/// An injector that runs until it is dropped; at first it injects nothing.
#[derive(Debug)]
pub struct Injector {
    address: SocketAddr,
    ledger: Arc<Ledger>,
    thread: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Injector {
    /// Starts an injector on a free port of 127.0.0.1, in front of the server at `upstream`. The same seed gives the same chances.
    ///
    /// # Panics
    ///
    /// If there is no free port or no thread to be had.
    #[must_use]
    pub fn start(upstream: SocketAddr, seed: u64) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let ledger = Arc::new(Ledger::new(seed));
        let (end, ended) = oneshot::channel();
        let serve = serve(listener, upstream, Arc::clone(&ledger));
        let thread =
            thread::Builder::new().name("injector".to_owned()).spawn(move || run(serve, ended)).expect("a thread");
        Self { address, ledger, thread: Some((end, thread)) }
    }

    /// Where clients reach the server through it.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The API through it.
    #[must_use]
    pub fn api(&self) -> Api {
        Api::at(self.address)
    }

    /// From now on injects these, and no others.
    pub fn inject(&self, faults: Faults) {
        self.ledger.inject(faults);
    }

    /// How often each action was called since the start or `forget_calls`; a call that was cut or throttled counts, for it is billed.
    #[must_use]
    pub fn calls(&self) -> BTreeMap<String, u64> {
        self.ledger.calls()
    }

    /// Counts calls from 0.
    pub fn forget_calls(&self) {
        self.ledger.forget_calls();
    }

    /// How often each fault has happened.
    #[must_use]
    pub fn injected(&self) -> BTreeMap<Fault, u64> {
        self.ledger.injected()
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            drop(end);
            drop(thread.join());
        }
    }
}

fn run(serve: impl Future<Output = io::Result<()>>, ended: oneshot::Receiver<()>) {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime.and_then(|runtime| {
        runtime.block_on(async {
            tokio::select! {
                served = serve => served,
                _ = ended => Ok(()),
            }
        })
    });
    served.expect("the injector runs until it is dropped");
}

async fn serve(listener: TcpListener, upstream: SocketAddr, ledger: Arc<Ledger>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (client, _) = listener.accept().await?;
        client.set_nodelay(true)?;
        let exchange = Arc::new(Exchange::new(upstream, Arc::clone(&ledger)));
        let answer = service_fn(move |request| {
            let exchange = Arc::clone(&exchange);
            async move { exchange.answer(request).await }
        });
        // An answer that is an error ends the connection without a word: that is how one is cut.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(client), answer));
    }
}
