//! One connection through the proxy: two halves that forward frames, one up
//! to the server and one down to the client, and that together carry out a
//! cut. Asks its session what a frame means and the plan at each COMMIT, and
//! passes the gate before each write.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{future, io};

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::plan::{Plan, Plans, Side, Step};
use super::protocol::{Fate, Session};
use super::switches::Gate;

/// Forwards between a client and the server until either ends, or a cut or a switch ends both.
pub(super) async fn run<S: Session>(client: TcpStream, upstream: SocketAddr, plans: Arc<Plans>, gate: Gate) {
    let connection = Connection { plans: &plans, gate: &gate, session: Mutex::new(S::default()), cut: OnceLock::new() };
    tokio::select! {
        // However it ended: the sockets are closed, and nobody has to hear why.
        _ = connection.forward(client, upstream) => {}
        () = gate.severed() => {}
    }
    if let Some(plan) = connection.cut.get() {
        plan.was_cut();
    }
}

/// What the two halves of a connection share.
struct Connection<'a, S> {
    plans: &'a Plans,
    gate: &'a Gate,
    session: Mutex<S>,
    /// The plan that has asked for the end of this connection.
    cut: OnceLock<Arc<Plan>>,
}

impl<S: Session> Connection<'_, S> {
    async fn forward(&self, mut client: TcpStream, upstream: SocketAddr) -> io::Result<()> {
        client.set_nodelay(true)?;
        let server = S::open(&mut client, upstream, self.gate).await?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::select! {
            end = self.up(from_client, to_server) => end,
            end = self.down(from_server, to_client) => end,
        }
    }

    async fn up(&self, client: OwnedReadHalf, mut server: OwnedWriteHalf) -> io::Result<()> {
        let mut client = BufReader::new(client);
        loop {
            let frame = S::read(&mut client).await?;
            self.gate.pass().await;
            if self.session().runs_commit(&frame) {
                match self.ask_plan() {
                    Some(Side::Before) => return Ok(()),
                    Some(Side::After) => self.session().silence(),
                    None => {}
                }
            }
            let asked = self.session().asks(&frame);
            let sent = server.write_all(frame.as_ref()).await.is_ok();
            if !sent || asked && self.cut.get().is_some() {
                // The other half ends the connection: at the server's last
                // words if it has hung up, at the answer if this is a cut.
                return future::pending().await;
            }
        }
    }

    async fn down(&self, server: OwnedReadHalf, mut client: OwnedWriteHalf) -> io::Result<()> {
        let mut server = BufReader::new(server);
        loop {
            let frame = S::read(&mut server).await?;
            self.gate.pass().await;
            let fate = self.session().hears(&frame);
            match fate {
                Fate::Forward => client.write_all(frame.as_ref()).await?,
                Fate::Swallow => {}
                Fate::End => return Ok(()),
            }
        }
    }

    fn ask_plan(&self) -> Option<Side> {
        if self.cut.get().is_some() {
            return None;
        }
        let plan = self.plans.current();
        let side = plan.meets(Step::Commit)?;
        self.cut.set(plan).ok()?;
        Some(side)
    }

    fn session(&self) -> MutexGuard<'_, S> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
