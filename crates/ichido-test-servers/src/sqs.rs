//! A private server for tests that speaks the API of Amazon SQS, as a plain Python process, from the folders into which `./test` installs it:
//! LocalStack's, started by `sqs.py`, or moto's, which is simpler and differs in other points from Amazon's. What it has is in memory. Talks to
//! its guardian only; tests look at its queues through `sqs_api`, past any injector.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::json;
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

/// Whose server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    LocalStack,
    Moto,
}

/// An SQS of this test process.
#[derive(Debug)]
pub struct Sqs {
    kind: Kind,
    python: PathBuf,
    seat: Seat,
}

impl Sqs {
    /// Starts a server of one's own, LocalStack's, without any queue.
    ///
    /// # Panics
    ///
    /// If LocalStack or Python is not installed, or if it does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::of(Kind::LocalStack)
    }

    /// The same, moto's: each region has queues of its own, and any name is a region.
    ///
    /// # Panics
    ///
    /// If moto or Python is not installed, or if it does not start.
    #[must_use]
    pub fn start_moto() -> Self {
        Self::of(Kind::Moto)
    }

    /// The one of moto that all tests of this process share, started at first use.
    pub fn shared_moto() -> &'static Self {
        static SHARED: OnceLock<Sqs> = OnceLock::new();
        SHARED.get_or_init(Self::start_moto)
    }

    fn of(kind: Kind) -> Self {
        // As the user who installed the packages: their folder may be closed to others.
        let guardian = Guardian::new("sqs", "root", "KILL");
        fs::write(guardian.folder().join("sqs.py"), include_str!("sqs.py")).expect("the program's file");
        let mut sqs = Self { kind, python: python(), seat: Seat::new(guardian) };
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

    /// What comes after `env`.
    fn command(&self) -> Vec<String> {
        let (python, address) = (self.python.display().to_string(), self.address());
        match self.kind {
            Kind::LocalStack => {
                let own = [
                    format!("PYTHONPATH={}", packages("sqs", "localstack").display()),
                    format!("FILESYSTEM_ROOT={}", self.folder().display()),
                    format!("GATEWAY_LISTEN={address}"),
                    format!("LOCALSTACK_HOST={address}"),
                ];
                own.into_iter().chain(SETTINGS.map(str::to_owned)).chain([python, "sqs.py".to_owned()]).collect()
            }
            // What it imports is there for LocalStack, except for a few packages.
            Kind::Moto => {
                let folders = [packages("moto", "moto"), packages("sqs", "localstack")];
                let path = format!("PYTHONPATH={}:{}", folders[0].display(), folders[1].display());
                let listen = ["-H".to_owned(), address.ip().to_string(), "-p".to_owned(), address.port().to_string()];
                let start = ["-c", "from moto.server import main; main()"].map(str::to_owned);
                let command = [path, "MOTO_ALLOW_NONEXISTENT_REGION=true".to_owned(), python];
                command.into_iter().chain(start).chain(listen).collect()
            }
        }
    }

    fn says_that_it_is_ready(&self) -> std::io::Result<bool> {
        if self.kind == Kind::Moto {
            return Ok(self.api().try_call("ListQueues", &json!({})).is_ok());
        }
        let mut stream = TcpStream::connect(self.address())?;
        stream.write_all(b"GET /_localstack/health HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.contains(r#""sqs": "running""#))
    }
}

server!(Sqs, Self::start());

impl Starting for Sqs {
    const NAME: &'static str = "the SQS server";
    const PORT_TAKEN: &'static str = "Address already in use";
    const STOP: &'static str = "TERM";

    fn launch(&self) -> u32 {
        let command = self.command();
        let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        self.seat.guardian.start(Path::new("env"), &arguments)
    }

    fn is_ready(&self, pid: u32) -> bool {
        !has_ended(pid) && self.says_that_it_is_ready().unwrap_or(false)
    }
}

/// The folder into which `./test` installs this package and what belongs to it.
fn packages(folder: &str, package: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(folder);
    assert!(
        target.join(package).is_dir(),
        "this test needs {package} in target/{folder}, which is not installed: run ./test, which installs it"
    );
    target.canonicalize().expect("a folder")
}

fn python() -> PathBuf {
    let folder = folder_with(&["python3"], Vec::new());
    folder.expect("this test needs Python, which is not installed: run ./test, which installs it").join("python3")
}
