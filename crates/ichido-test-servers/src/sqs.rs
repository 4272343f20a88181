//! A private server for tests that speaks the API of Amazon SQS: LocalStack's, as a plain Python process, from the folder into which
//! `./test` installs it, started by `sqs.py`. What it has is in memory. Talks to its guardian only; tests look at its queues through `sqs_api`,
//! past any injector.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::guardian::Guardian;
use super::processes::has_ended;
use super::programs::folder_with;
use super::sqs_api::Api;
use super::starting::{Seat, Starting, server};

/// It asks nobody else for anything, and has nothing but SQS. Addresses of queues name the host that was asked, so that they go
/// through an injector too.
const SETTINGS: [&str; 10] = [
    "DISABLE_EVENTS=1",
    "DNS_ADDRESS=0",
    "EAGER_SERVICE_LOADING=1",
    "LS_LOG=warning",
    "SERVICES=sqs",
    "SKIP_SSL_CERT_DOWNLOAD=1",
    "SQS_DISABLE_CLOUDWATCH_METRICS=1",
    "SQS_ENDPOINT_STRATEGY=dynamic",
    "STRICT_SERVICE_LOADING=1",
    "USE_SSL=0",
];

/// An SQS of this test process.
#[derive(Debug)]
pub struct Sqs {
    python: PathBuf,
    packages: PathBuf,
    seat: Seat,
}

impl Sqs {
    /// Starts a server of one's own, without any queue.
    ///
    /// # Panics
    ///
    /// If LocalStack or Python is not installed, or if it does not start.
    #[must_use]
    pub fn start() -> Self {
        // As the user who installed the packages: their folder may be closed to others.
        let guardian = Guardian::new("sqs", "root", "KILL");
        fs::write(guardian.folder().join("sqs.py"), include_str!("sqs.py")).expect("the program's file");
        let mut sqs = Self { python: python(), packages: packages(), seat: Seat::new(guardian) };
        sqs.start_on_a_free_port();
        sqs
    }

    /// Where clients reach it, with any credentials.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// A name that no other queue has.
    #[must_use]
    pub fn fresh_name(&self) -> String {
        format!("q-{}", Uuid::now_v7().simple())
    }

    /// The API, for a test that looks at queues from outside.
    #[must_use]
    pub fn api(&self) -> Api {
        Api::at(self.address())
    }

    fn says_that_it_is_ready(&self) -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(self.address())?;
        stream.write_all(b"GET /_localstack/health HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.contains(r#""sqs": "running""#))
    }
}

server!(Sqs, Self::start());

impl Starting for Sqs {
    const NAME: &'static str = "LocalStack";
    const PORT_TAKEN: &'static str = "Address already in use";
    const STOP: &'static str = "TERM";

    fn launch(&self) -> u32 {
        let folder = self.folder().display();
        let own = [
            format!("PYTHONPATH={}", self.packages.display()),
            format!("FILESYSTEM_ROOT={folder}"),
            format!("GATEWAY_LISTEN={}", self.address()),
            format!("LOCALSTACK_HOST={}", self.address()),
        ];
        let python = self.python.to_str().expect("a path in UTF-8");
        let mut arguments: Vec<&str> = own.iter().map(String::as_str).chain(SETTINGS).collect();
        arguments.extend([python, "sqs.py"]);
        self.seat.guardian.start(Path::new("env"), &arguments)
    }

    fn is_ready(&self, pid: u32) -> bool {
        !has_ended(pid) && self.says_that_it_is_ready().unwrap_or(false)
    }
}

/// Where `./test` installs LocalStack.
fn packages() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sqs");
    let installed = sources.join("localstack").is_dir().then(|| sources.canonicalize().expect("a folder"));
    installed.expect("this test needs LocalStack in target/sqs, which is not installed: run ./test, which installs it")
}

fn python() -> PathBuf {
    let folder = folder_with(&["python3"], Vec::new());
    folder.expect("this test needs Python, which is not installed: run ./test, which installs it").join("python3")
}
