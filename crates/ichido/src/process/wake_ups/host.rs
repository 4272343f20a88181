//! How processes of one host tell each other that something was sent: each has a datagram socket in a folder that belongs to
//! the database, and tells whoever has one there. Where there are no such sockets, polling remains.

#[cfg(not(unix))]
use std::path::Path;
use std::path::PathBuf;

/// The path of a socket has about a hundred bytes: an address that is longer than this is known by its hash.
const LONGEST_NAME: usize = 32;

/// The folder for the database at this address, which other users of this host do not share.
pub(super) fn folder(address: &str) -> PathBuf {
    let name: String =
        address.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let name = if name.len() > LONGEST_NAME { hash(address) } else { name };
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    runtime.unwrap_or_else(std::env::temp_dir).join(format!("ichido-{name}"))
}

/// FNV-1a: every process must come to the same name, whoever built it.
fn hash(address: &str) -> String {
    let hash = address
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

#[cfg(not(unix))]
pub(super) fn tell(_: Option<&Path>, _: &str) {}

#[cfg(not(unix))]
pub(super) async fn hear(_: Option<&Path>, _: impl Fn(&str)) {
    std::future::pending().await
}

#[cfg(unix)]
pub(super) use self::sockets::{hear, tell};

#[cfg(unix)]
mod sockets {
    use std::{
        fs::{self, DirBuilder},
        io,
        os::unix::{
            fs::{DirBuilderExt, MetadataExt},
            net::UnixDatagram as StdDatagram,
        },
        path::{Path, PathBuf},
    };

    use tokio::net::UnixDatagram;

    /// How a socket's name ends. It stays as it is: processes of other versions on this host look for it.
    const ENDING: &str = "bell";

    /// The longest name of a queue, and a little more.
    const LONGEST: usize = 256;

    /// Tells every process that has a socket in the folder; who is gone is cleared away.
    pub(crate) fn tell(folder: Option<&Path>, queue: &str) {
        let Some(others) = folder.filter(|folder| is_ours(folder)).and_then(|folder| fs::read_dir(folder).ok()) else {
            return;
        };
        let Ok(socket) = StdDatagram::unbound().and_then(|socket| socket.set_nonblocking(true).map(|()| socket)) else {
            return;
        };
        for other in others.flatten().map(|entry| entry.path()) {
            if other.extension().is_none_or(|ending| ending != ENDING) {
                continue;
            }
            // Nobody waits for a process that does not listen: its buffer is full of wake-ups already.
            if let Err(error) = socket.send_to(queue.as_bytes(), &other)
                && error.kind() == io::ErrorKind::ConnectionRefused
            {
                let _ = fs::remove_file(&other);
            }
        }
    }

    /// In a folder that is open to all, or that a link leads to, anybody could listen, keep us awake, or have files removed.
    fn is_ours(folder: &Path) -> bool {
        fs::symlink_metadata(folder).is_ok_and(|about| about.is_dir() && about.mode() & 0o002 == 0)
    }

    /// Hears what others tell, for ever.
    pub(crate) async fn hear(folder: Option<&Path>, wake: impl Fn(&str)) {
        let listening = folder.map(Ear::open);
        let Some(Ok(ear)) = listening else {
            if let Some(Err(error)) = listening {
                tracing::debug!(%error, "no wake-ups from other processes of this host; polling instead");
            }
            return std::future::pending().await;
        };
        let mut buffer = [0; LONGEST];
        while let Ok(length) = ear.socket.recv(&mut buffer).await {
            if let Ok(queue) = str::from_utf8(&buffer[..length]) {
                wake(queue);
            }
        }
        std::future::pending::<()>().await;
    }

    /// A socket that is gone with this process.
    struct Ear {
        socket: UnixDatagram,
        path: PathBuf,
    }

    impl Ear {
        /// Who leaves as the last one takes the folder along, perhaps just when we come in: then once more.
        fn open(folder: &Path) -> io::Result<Self> {
            let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            let mut tries = (0..10).map(|_| Ear::try_open(folder));
            tries.find(|opened| !opened.as_ref().err().is_some_and(gone)).unwrap_or_else(|| Ear::try_open(folder))
        }

        fn try_open(folder: &Path) -> io::Result<Self> {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            if !is_ours(folder) {
                return Err(io::Error::other(format!("everybody may write to {}", folder.display())));
            }
            // Processes that were killed have left their sockets; a wake-up for no queue clears them away.
            tell(Some(folder), "");
            let path = folder.join(format!("{}.{ENDING}", uuid::Uuid::now_v7().simple()));
            let socket = UnixDatagram::bind(&path)?;
            Ok(Ear { socket, path })
        }
    }

    impl Drop for Ear {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.path);
            if let Some(folder) = self.path.parent() {
                let _ = fs::remove_dir(folder);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use std::sync::{Arc, Mutex};

        use tokio::sync::Notify;

        use super::*;

        #[tokio::test]
        async fn a_process_hears_what_another_tells_and_who_is_gone_is_cleared_away() {
            let place = std::env::temp_dir().join(format!("ichido-test-{}", uuid::Uuid::now_v7().simple()));
            let (folder, heard, rung) = (place.clone(), Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
            let gone = Ear::open(&folder).unwrap();
            let left = folder.join("left.bell");
            fs::hard_link(&gone.path, &left).unwrap();
            drop(gone);
            let (note, told, ear) = (heard.clone(), rung.clone(), folder.clone());
            let hearing = tokio::spawn(async move {
                hear(Some(&ear), |queue| {
                    note.lock().unwrap().push(queue.to_owned());
                    told.notify_one();
                })
                .await;
            });
            while left.exists() || fs::read_dir(&folder).unwrap().count() < 1 {
                tokio::task::yield_now().await;
            }
            tell(Some(&folder), "orders");
            rung.notified().await;
            assert_eq!(*heard.lock().unwrap(), ["orders"]);
            hearing.abort();
            let _ = hearing.await;
            assert!(!place.exists(), "who leaves as the last one takes the folder along");
        }

        #[tokio::test]
        async fn a_long_address_has_a_folder_too_and_its_own() {
            let address = |name| format!("orders.cluster-0123456789ab.eu-central-1.rds.example.com:5432/{name}");
            let folder = super::super::folder(&address("orders"));
            drop(Ear::open(&folder).unwrap());
            assert_ne!(folder, super::super::folder(&address("mail")));
        }

        #[test]
        fn without_a_folder_nobody_is_told() {
            tell(None, "orders");
            tell(Some(Path::new("/nonexistent")), "orders");
        }
    }
}
