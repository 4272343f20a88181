//! One connection to RabbitMQ through the proxy. Unlike with a database, client
//! and broker talk past each other: each half looks for its own steps of a
//! message, asks the plan, and carries out the cut. After a step of the
//! broker, the client gets all of it and then the end of the stream. After one of
//! the client, the broker gets all of it and a question: when it answers, it has
//! dealt with what came before, which it might forget if we just hung up.

mod frame;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::plan::{Plan, Plans, Side, Step};
use super::switches::Gate;
use frame::Frame;

/// What a client says first, before any frame.
const GREETING: usize = 8;

/// Forwards between a client and the broker until either ends, or a cut or a switch ends both.
pub(super) async fn run(client: TcpStream, upstream: SocketAddr, plans: Arc<Plans>, gate: Gate) {
    let connection = Connection { plans: &plans, gate: &gate, cut: OnceLock::new(), silent: AtomicBool::new(false) };
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
struct Connection<'a> {
    plans: &'a Plans,
    gate: &'a Gate,
    /// The plan that has asked for the end of this connection.
    cut: OnceLock<Arc<Plan>>,
    /// Nothing is forwarded any more, in either direction.
    silent: AtomicBool,
}

impl Connection<'_> {
    async fn forward(&self, mut client: TcpStream, upstream: SocketAddr) -> io::Result<()> {
        let mut broker = TcpStream::connect(upstream).await?;
        client.set_nodelay(true)?;
        broker.set_nodelay(true)?;
        let mut greeting = [0; GREETING];
        client.read_exact(&mut greeting).await?;
        self.gate.pass().await;
        broker.write_all(&greeting).await?;
        // Out here, so that a half which has ended does not hang up: the other may be kept from learning it.
        let (from_client, mut to_client) = client.into_split();
        let (from_broker, mut to_broker) = broker.into_split();
        let ear = &self.gate.ear;
        let mut up = pin!(self.half(from_client, &mut to_broker, Frame::step_of_client, || ear.server_hears()));
        let mut down = pin!(self.half(from_broker, &mut to_client, Frame::step_of_broker, || ear.client_hears()));
        tokio::select! {
            end = &mut up => if ear.server_hears() { end } else { down.await },
            end = &mut down => if ear.client_hears() { end } else { up.await },
        }
    }

    /// Forwards one direction until its sender ends, or a cut.
    async fn half(
        &self,
        from: OwnedReadHalf,
        to: &mut OwnedWriteHalf,
        step: fn(&Frame) -> Option<Step>,
        is_heard: impl Fn() -> bool,
    ) -> io::Result<()> {
        let mut from = BufReader::new(from);
        loop {
            let frame = Frame::read(&mut from).await?;
            self.gate.pass().await;
            if self.silent.load(Ordering::Relaxed) {
                if frame.is_answer() {
                    return Ok(());
                }
                continue;
            }
            let step = step(&frame);
            if let Some(step) = step {
                self.gate.ear.passes(step.name().as_bytes());
            }
            if !is_heard() {
                continue;
            }
            match step.and_then(|step| Some((step, self.ask_plan(step)?))) {
                None => to.write_all(frame.bytes()).await?,
                Some((_, Side::Before)) => return Ok(()),
                Some((step, Side::After)) => {
                    to.write_all(frame.bytes()).await?;
                    let channel = frame.channel();
                    if matches!(step, Step::Publish | Step::Deliver) {
                        rest_of_message(channel, &mut from, to).await?;
                    }
                    self.silent.store(true, Ordering::Relaxed);
                    if matches!(step, Step::Publish | Step::Ack) {
                        to.write_all(Frame::question(channel).bytes()).await?;
                    } else {
                        to.shutdown().await?;
                    }
                }
            }
        }
    }

    fn ask_plan(&self, step: Step) -> Option<Side> {
        if self.cut.get().is_some() {
            return None;
        }
        let plan = self.plans.current();
        let side = plan.meets(step)?;
        self.cut.set(plan).ok()?;
        Some(side)
    }
}

/// Forwards until the message on a channel is complete.
async fn rest_of_message(channel: u16, from: &mut BufReader<OwnedReadHalf>, to: &mut OwnedWriteHalf) -> io::Result<()> {
    let mut left = None;
    while left != Some(0) {
        let frame = Frame::read(from).await?;
        to.write_all(frame.bytes()).await?;
        if frame.channel() == channel {
            left = match (left, frame.announces(), frame.carries()) {
                (None, Some(size), _) => Some(size),
                (Some(left), _, Some(part)) => Some(left.saturating_sub(part)),
                (left, ..) => left,
            };
        }
    }
    Ok(())
}
