//! A private Prometheus for tests: it scrapes the processes that a test names, once a second, and evaluates the alerts that it is
//! given as often. Talks to its guardian only; a test asks it over HTTP.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;

use super::guardian::Guardian;
use super::processes::has_ended;
use super::programs::folder_with;
use super::starting::{Seat, Starting, server};

/// A Prometheus of this test process.
#[derive(Debug)]
pub struct Prometheus {
    program: PathBuf,
    seat: Seat,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes these addresses as the job `ichido`, with the rules in this text.
    ///
    /// # Panics
    ///
    /// If Prometheus is not installed or does not start.
    #[must_use]
    pub fn start(targets: &[&str], rules: &str) -> Self {
        let program = program("prometheus");
        let guardian = Guardian::new("prometheus", "prometheus", "TERM");
        let folder = guardian.folder();
        let settings = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\n\
             rule_files: [rules.yml]\n\
             scrape_configs: [{{ job_name: ichido, static_configs: [{{ targets: {targets:?} }}] }}]\n"
        );
        fs::write(folder.join("rules.yml"), rules).expect("the rules' file");
        fs::write(folder.join("prometheus.yml"), settings).expect("the settings' file");
        let mut prometheus = Self { program, seat: Seat::new(guardian) };
        prometheus.start_on_a_free_port();
        prometheus
    }

    /// The program that checks and tests rules.
    ///
    /// # Panics
    ///
    /// If Prometheus is not installed.
    #[must_use]
    pub fn promtool() -> PathBuf {
        program("promtool")
    }

    fn says_that_it_is_ready(&self) -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(self.address())?;
        stream.write_all(b"GET /-/ready HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.split(' ').nth(1) == Some("200"))
    }
}

server!(Prometheus, Self::start(&[], ""));

impl Starting for Prometheus {
    const NAME: &'static str = "Prometheus";
    const PORT_TAKEN: &'static str = "address already in use";
    const STOP: &'static str = "TERM";

    fn launch(&self) -> u32 {
        let folder = self.folder().to_str().expect("a path in UTF-8");
        let arguments = [
            format!("--config.file={folder}/prometheus.yml"),
            format!("--storage.tsdb.path={folder}/data"),
            format!("--web.listen-address={}", self.address()),
        ];
        self.seat.guardian.start(&self.program, &arguments.each_ref().map(String::as_str))
    }

    fn is_ready(&self, pid: u32) -> bool {
        !has_ended(pid) && self.says_that_it_is_ready().unwrap_or(false)
    }
}

fn program(name: &str) -> PathBuf {
    let folder = folder_with(&[name], vec!["/usr/bin".into()]).expect(
        "this test needs Prometheus, which is not installed: \
         run ./test, which installs it, or: apt-get install prometheus",
    );
    folder.join(name)
}
