//! One connection through the proxy: two halves that forward frames, one up
//! to the server and one down to the client, and that together carry out a
//! cut. Asks the plan at each COMMIT, passes the gate before each write.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::{future, io};

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::frames::Frame;
use super::frontend::Frontend;
use super::plan::{Cut, Plan, Plans};
use super::switches::Gate;

/// Forwards between a client and the server until either ends, or a cut or a switch ends both.
pub(super) async fn run(client: TcpStream, upstream: SocketAddr, plans: Arc<Plans>, gate: Gate) {
    let connection =
        Connection { plans: &plans, gate: &gate, silent_from: AtomicU64::new(u64::MAX), cut: OnceLock::new() };
    tokio::select! {
        // However it ended: the sockets are closed, and nobody has to hear why.
        _ = connection.forward(client, upstream) => {}
        () = gate.severed() => {}
    }
    if let Some(plan) = connection.cut.get() {
        plan.was_cut();
    }
}

/// What the two halves of a connection tell each other.
struct Connection<'a> {
    plans: &'a Plans,
    gate: &'a Gate,
    /// After so many `ReadyForQuery`, the client hears nothing any more.
    silent_from: AtomicU64,
    /// The plan that has asked for the end of this connection.
    cut: OnceLock<Arc<Plan>>,
}

impl Connection<'_> {
    async fn forward(&self, mut client: TcpStream, upstream: SocketAddr) -> io::Result<()> {
        let startup = self.startup(&mut client).await?;
        let mut server = TcpStream::connect(upstream).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        server.write_all(startup.bytes()).await?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::select! {
            end = self.up(from_client, to_server) => end,
            end = self.down(from_server, to_client) => end,
        }
    }

    /// The packet that opens a session. Encryption is declined without asking
    /// the server: behind it, no COMMIT could be seen.
    async fn startup(&self, client: &mut TcpStream) -> io::Result<Frame> {
        loop {
            let packet = Frame::startup(client).await?;
            self.gate.pass().await;
            if !packet.asks_for_encryption() {
                return Ok(packet);
            }
            client.write_all(b"N").await?;
        }
    }

    async fn up(&self, client: OwnedReadHalf, mut server: OwnedWriteHalf) -> io::Result<()> {
        let mut client = BufReader::new(client);
        let mut frontend = Frontend::started();
        loop {
            let frame = Frame::typed(&mut client).await?;
            self.gate.pass().await;
            if frontend.runs_commit(&frame) {
                match self.ask_plan() {
                    Some(Cut::BeforeCommit) => return Ok(()),
                    Some(Cut::AfterCommit) => self.silent_from.store(frontend.asked(), Relaxed),
                    None => {}
                }
            }
            let sent = server.write_all(frame.bytes()).await.is_ok();
            let asked = frontend.asks(&frame);
            if !sent || asked && self.cut.get().is_some() {
                // The other half ends the connection: at the server's last
                // words if it has hung up, at the answer if this is a cut.
                return future::pending().await;
            }
        }
    }

    async fn down(&self, server: OwnedReadHalf, mut client: OwnedWriteHalf) -> io::Result<()> {
        let mut server = BufReader::new(server);
        let mut ready = 0;
        loop {
            let frame = Frame::typed(&mut server).await?;
            self.gate.pass().await;
            let silent = ready >= self.silent_from.load(Relaxed);
            if !silent {
                client.write_all(frame.bytes()).await?;
            }
            if frame.kind() == b'Z' {
                if silent {
                    return Ok(());
                }
                ready += 1;
            }
        }
    }

    fn ask_plan(&self) -> Option<Cut> {
        if self.cut.get().is_some() {
            return None;
        }
        let plan = self.plans.current();
        let cut = plan.commit()?;
        self.cut.set(plan).ok()?;
        Some(cut)
    }
}
