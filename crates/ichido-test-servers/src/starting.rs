//! How a server comes up, whatever its kind: on a port that nobody else has
//! taken, and with the end of its log as the message if it does not. Each
//! server beside this file tells what is its own; the process is its guardian's.

use std::time::{Duration, Instant};

use super::guardian::Guardian;
use super::port::free_port;
use super::processes::{has_ended, look_again};

/// No server takes so long, however busy the machine is.
const START_LIMIT: Duration = Duration::from_mins(5);
const PORTS: u32 = 5;

/// A server that can be started.
pub(super) trait Starting {
    /// Its name in messages.
    const NAME: &'static str;

    /// Words of its log that mean: somebody else has its port.
    const PORT_TAKEN: &'static str;

    fn guardian(&self) -> &Guardian;

    fn port(&self) -> u16;

    fn set_port(&mut self, port: u16);

    /// Starts its process on its port and returns the process id.
    fn launch(&self) -> u32;

    /// Whether its process, `pid`, takes connections.
    fn is_ready(&self, pid: u32) -> bool;

    /// Starts it for the first time.
    fn start_on_a_free_port(&mut self) {
        for _ in 0..PORTS {
            self.set_port(free_port());
            if self.starts() {
                return;
            }
            if !self.guardian().log_tail().contains(Self::PORT_TAKEN) {
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
                self.guardian().stop("KILL");
                return false;
            }
            look_again();
        }
        true
    }

    fn did_not_start(&self) -> ! {
        let (name, port, log) = (Self::NAME, self.port(), self.guardian().log_tail());
        panic!("{name} did not start on port {port}; the end of its log:\n{log}");
    }
}
