//! How a server comes up and ends, whatever its kind: on a port that nobody else
//! has taken, and with the end of its log as the message if it does not start.
//! Each server beside this file tells what is its own; the process is its guardian's.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::guardian::Guardian;
use super::port::free_port;
use super::processes::{has_ended, look_again};

/// No server takes so long, however busy the machine is.
const START_LIMIT: Duration = Duration::from_mins(5);
const PORTS: u32 = 5;

/// What every server has.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) guardian: Guardian,
    pub(super) ip: Ipv4Addr,
    /// None before it is started for the first time.
    pub(super) port: u16,
}

impl Seat {
    pub(super) fn new(guardian: Guardian) -> Self {
        Self { guardian, ip: Ipv4Addr::LOCALHOST, port: 0 }
    }

    pub(super) fn address(&self) -> SocketAddr {
        (self.ip, self.port).into()
    }
}

/// A server in its seat.
pub(super) trait Seated {
    fn seat(&self) -> &Seat;

    fn seat_mut(&mut self) -> &mut Seat;
}

/// A server that can be started.
pub(super) trait Starting: Seated {
    /// Its name in messages.
    const NAME: &'static str;

    /// Words of its log that mean: somebody else has its port.
    const PORT_TAKEN: &'static str;

    /// The signal with which an operator stops it.
    const STOP: &'static str;

    /// Starts its process on its port and returns the process id.
    fn launch(&self) -> u32;

    /// Whether its process, `pid`, takes connections.
    fn is_ready(&self, pid: u32) -> bool;

    /// Writes what it would not survive to lose, before a crash.
    fn brace(&self) {}

    /// Removes what it has outside of its folder, after a crash.
    fn tidy(&self) {}

    /// Does what its operator would, when it is back.
    fn mend(&self) {}

    /// Starts it for the first time.
    fn start_on_a_free_port(&mut self) {
        for _ in 0..PORTS {
            self.seat_mut().port = free_port();
            if self.starts() {
                return;
            }
            if !self.seat().guardian.log_tail().contains(Self::PORT_TAKEN) {
                break;
            }
        }
        self.did_not_start()
    }

    /// Starts it again, where its clients will look for it.
    fn start_on_its_port(&self) {
        if !self.starts() {
            self.did_not_start()
        }
    }

    /// Whether it starts; if not, nothing of it is left running.
    fn starts(&self) -> bool {
        let pid = self.launch();
        let started = Instant::now();
        while !self.is_ready(pid) {
            if has_ended(pid) || started.elapsed() > START_LIMIT {
                self.seat().guardian.stop("KILL");
                return false;
            }
            look_again();
        }
        true
    }

    fn did_not_start(&self) -> ! {
        let (name, port, log) = (Self::NAME, self.seat().port, self.seat().guardian.log_tail());
        panic!("{name} did not start on port {port}; the end of its log:\n{log}");
    }
}

/// What a test may do with a server, whatever its kind; and how the one that tests share is started.
macro_rules! server {
    ($server:ty, $start:expr) => {
        impl $crate::starting::Seated for $server {
            fn seat(&self) -> &$crate::starting::Seat {
                &self.seat
            }

            fn seat_mut(&mut self) -> &mut $crate::starting::Seat {
                &mut self.seat
            }
        }

        impl $server {
            /// The one that all tests of this process share, started at first use.
            pub fn shared() -> &'static Self {
                static SHARED: std::sync::OnceLock<$server> = std::sync::OnceLock::new();
                SHARED.get_or_init(|| $start)
            }

            /// Where it listens.
            #[must_use]
            pub fn address(&self) -> std::net::SocketAddr {
                self.seat.address()
            }

            /// The temporary folder with all that it has, its log too.
            #[must_use]
            pub fn folder(&self) -> &std::path::Path {
                self.seat.guardian.folder()
            }

            /// Stops it as an operator would; open connections are ended.
            pub fn stop(&self) {
                self.seat.guardian.stop(<Self as $crate::starting::Starting>::STOP);
            }

            /// Ends all of its processes with SIGKILL: a crash, after which only what is in files is left.
            pub fn kill(&self) {
                $crate::starting::Starting::brace(self);
                self.seat.guardian.kill();
                $crate::starting::Starting::tidy(self);
            }

            /// Starts it again after `stop` or `kill`: same port, same data.
            pub fn start_again(&self) {
                $crate::starting::Starting::start_on_its_port(self);
                $crate::starting::Starting::mend(self);
            }
        }
    };
}
pub(super) use server;

/// The lines of a file of settings; later ones count.
pub(super) fn lines<'a>(settings: impl IntoIterator<Item = &'a (&'a str, &'a str)>) -> String {
    settings.into_iter().fold(String::new(), |mut lines, (name, value)| {
        writeln!(lines, "{name} = {value}").expect("to a string");
        lines
    })
}
