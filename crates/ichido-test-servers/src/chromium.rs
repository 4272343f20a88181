//! A real browser for tests: chromium-driver, started like the other servers, and [`Browser`] (beside this file), which drives a headless Chromium through
//! it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;

use super::browser::is_whole;
use super::guardian::Guardian;
use super::processes::has_ended;
use super::programs::folder_with;
use super::starting::{Seat, Starting, server};

/// The driver of this test process.
#[derive(Debug)]
pub struct Chromium {
    program: PathBuf,
    seat: Seat,
}

impl Chromium {
    /// Starts the driver; each [`Browser`](super::Browser) is a Chromium of its own.
    ///
    /// # Panics
    ///
    /// If Chromium or its driver is not installed, or the driver does not start.
    #[must_use]
    pub fn start() -> Self {
        let folder = folder_with(&["chromium", "chromedriver"], vec!["/usr/bin".into()]).expect(
            "this test needs a browser, which is not installed: \
             run ./test, which installs it, or: apt-get install chromium chromium-driver",
        );
        let guardian = Guardian::new("chromium", "chromium", "TERM");
        let mut chromium = Self { program: folder.join("chromedriver"), seat: Seat::new(guardian) };
        chromium.start_on_a_free_port();
        chromium
    }

    fn says_that_it_is_ready(&self) -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(self.address())?;
        stream.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        // It keeps the connection open.
        let (mut answer, mut part) = (Vec::new(), [0; 1024]);
        while !is_whole(&answer) {
            match stream.read(&mut part)? {
                0 => break,
                read => answer.extend_from_slice(&part[..read]),
            }
        }
        Ok(String::from_utf8_lossy(&answer).contains("\"ready\":true"))
    }
}

server!(Chromium, Self::start());

impl Starting for Chromium {
    const NAME: &'static str = "chromedriver";
    const PORT_TAKEN: &'static str = "Address already in use";
    const STOP: &'static str = "TERM";

    fn launch(&self) -> u32 {
        let port = format!("--port={}", self.seat.port);
        self.seat.guardian.start(&self.program, &[&port])
    }

    fn is_ready(&self, pid: u32) -> bool {
        !has_ended(pid) && self.says_that_it_is_ready().unwrap_or(false)
    }
}
