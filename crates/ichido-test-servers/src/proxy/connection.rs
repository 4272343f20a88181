//! One connection through the proxy: two halves that forward frames, one up
//! to the server and one down to the client, and that together carry out a
//! cut or keep a silence. Asks its session what a frame means, the plan at each
//! COMMIT and the ear at each statement, and passes the gate before each write.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{future, io};

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::plan::{Plan, Plans, Side, Step};
use super::protocol::{Fate, Session, is_commit};
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
        // Out here, so that a half which has ended does not hang up: the other may be kept from learning it.
        let (from_client, mut to_client) = client.into_split();
        let (from_server, mut to_server) = server.into_split();
        let mut up = pin!(self.up(from_client, &mut to_server));
        let mut down = pin!(self.down(from_server, &mut to_client));
        tokio::select! {
            end = &mut up => if self.gate.ear.server_hears() { end } else { down.await },
            end = &mut down => if self.gate.ear.client_hears() { end } else { up.await },
        }
    }

    async fn up(&self, client: OwnedReadHalf, server: &mut OwnedWriteHalf) -> io::Result<()> {
        let mut client = BufReader::new(client);
        loop {
            let frame = S::read(&mut client).await?;
            self.gate.pass().await;
            let statement = self.session().runs(&frame);
            if let Some(statement) = statement {
                self.gate.ear.passes(&statement);
                match is_commit(&statement).then(|| self.ask_plan()).flatten() {
                    Some(Side::Before) => return Ok(()),
                    Some(Side::After) => self.session().silence(),
                    None => {}
                }
            }
            if !self.gate.ear.server_hears() {
                continue;
            }
            let asked = self.session().asks(&frame);
            let sent = server.write_all(frame.as_ref()).await.is_ok();
            let keeps_silence = !self.gate.ear.client_hears();
            if !sent && !keeps_silence || asked && self.cut.get().is_some() {
                // The other half ends the connection: at the server's last
                // words if it has hung up, at the answer if this is a cut.
                return future::pending().await;
            }
        }
    }

    async fn down(&self, server: OwnedReadHalf, client: &mut OwnedWriteHalf) -> io::Result<()> {
        let mut server = BufReader::new(server);
        loop {
            let frame = S::read(&mut server).await?;
            self.gate.pass().await;
            let fate = self.session().hears(&frame);
            match fate {
                Fate::Forward if self.gate.ear.client_hears() => client.write_all(frame.as_ref()).await?,
                Fate::Forward | Fate::Swallow => {}
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
