//! How processes of one host tell each other that something was sent: each has a datagram socket in a folder that belongs to
//! the database, and tells whoever has one there. Where there are no such sockets, polling remains.

use std::path::PathBuf;

/// The path of a socket has about a hundred bytes: an address that is longer than this is known by its hash.
const LONGEST_NAME: usize = 32;

/// A folder in which processes of this host meet.
pub(super) struct Meeting {
    folder: PathBuf,
    /// The file that all of them may write to; none if they all belong to one user.
    file: Option<PathBuf>,
}

impl Meeting {
    pub(super) fn new(folder: PathBuf, file: Option<PathBuf>) -> Self {
        Meeting { folder, file }
    }

    #[cfg(unix)]
    fn writers(&self) -> super::Writers {
        self.file.as_deref().map_or_else(super::Writers::us, super::Writers::to)
    }
}

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
pub(super) fn tell(_: Option<&Meeting>, _: &str) {}

#[cfg(not(unix))]
pub(super) async fn hear(_: Option<&Meeting>, _: impl Fn(&str)) {
    std::future::pending().await
}

#[cfg(unix)]
pub(super) use self::sockets::{hear, tell};

#[cfg(unix)]
mod sockets {
    use std::{
        fs::{self, DirBuilder, Permissions},
        io,
        os::unix::{
            fs::{DirBuilderExt, PermissionsExt},
            net::UnixDatagram as StdDatagram,
        },
        path::PathBuf,
    };

    use tokio::net::UnixDatagram;

    use super::Meeting;

    /// How a socket's name ends. It stays as it is: processes of other versions on this host look for it.
    const ENDING: &str = "bell";

    /// The longest name of a queue, and a little more.
    const LONGEST: usize = 256;

    /// No more entries of a folder are looked at, whoever made them.
    const MOST_ENTRIES: usize = 4096;

    /// No more processes of a host are told; others poll.
    const MOST_TOLD: usize = 256;

    /// Tells every process that has a socket in the folder; who is gone is cleared away.
    pub(crate) fn tell(meeting: Option<&Meeting>, queue: &str) {
        let ours = meeting.filter(|meeting| meeting.writers().check(&meeting.folder).is_ok());
        let Some(entries) = ours.and_then(|meeting| fs::read_dir(&meeting.folder).ok()) else { return };
        let Ok(socket) = StdDatagram::unbound().and_then(|socket| socket.set_nonblocking(true).map(|()| socket)) else {
            return;
        };
        let entries = entries.take(MOST_ENTRIES).flatten().map(|entry| entry.path());
        for other in entries.filter(|path| path.extension().is_some_and(|ending| ending == ENDING)).take(MOST_TOLD) {
            // Nobody waits for a process that does not listen: its buffer is full of wake-ups already.
            if let Err(error) = socket.send_to(queue.as_bytes(), &other)
                && error.kind() == io::ErrorKind::ConnectionRefused
            {
                let _ = fs::remove_file(&other);
            }
        }
    }

    /// Hears what others tell, for ever.
    pub(crate) async fn hear(meeting: Option<&Meeting>, wake: impl Fn(&str)) {
        let listening = meeting.map(Ear::open);
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
                // Whoever was woken goes first, before the socket is asked for more.
                tokio::task::yield_now().await;
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
        fn open(meeting: &Meeting) -> io::Result<Self> {
            let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            let mut tries = (0..10).map(|_| Ear::try_open(meeting));
            tries.find(|opened| !opened.as_ref().err().is_some_and(gone)).unwrap_or_else(|| Ear::try_open(meeting))
        }

        fn try_open(meeting: &Meeting) -> io::Result<Self> {
            let folder = &meeting.folder;
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            let writers = meeting.writers();
            writers.check(folder)?;
            // Processes that were killed have left their sockets; a wake-up for no queue clears them away.
            tell(Some(meeting), "");
            let path = folder.join(format!("{}.{ENDING}", uuid::Uuid::now_v7().simple()));
            let ear = Ear { socket: UnixDatagram::bind(&path)?, path };
            fs::set_permissions(&ear.path, Permissions::from_mode(writers.file_mode()))?;
            Ok(ear)
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
            let meeting = Arc::new(Meeting::new(folder.clone(), None));
            let gone = Ear::open(&meeting).unwrap();
            let left = folder.join("left.bell");
            fs::hard_link(&gone.path, &left).unwrap();
            drop(gone);
            let (note, told, ear) = (heard.clone(), rung.clone(), meeting.clone());
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
            tell(Some(&meeting), "orders");
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
            drop(Ear::open(&Meeting::new(folder.clone(), None)).unwrap());
            assert_ne!(folder, super::super::folder(&address("mail")));
        }

        #[test]
        fn without_a_folder_nobody_is_told() {
            tell(None, "orders");
            tell(Some(&Meeting::new("/nonexistent".into(), None)), "orders");
        }

        #[test]
        fn a_folder_that_others_can_write_to_is_not_used() {
            let place = tempfile::tempdir().unwrap();
            let folder = place.path().join("meeting");
            fs::create_dir(&folder).unwrap();
            let listens = StdDatagram::bind(folder.join("other.bell")).unwrap();
            listens.set_nonblocking(true).unwrap();
            let heard = || listens.recv(&mut [0; LONGEST]).is_ok();
            let (own, link) = (Meeting::new(folder.clone(), None), place.path().join("link"));
            std::os::unix::fs::symlink(&folder, &link).unwrap();
            for (mode, is_ours) in [(0o700, true), (0o755, true), (0o770, false), (0o707, false), (0o777, false)] {
                fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
                tell(Some(&own), "orders");
                assert_eq!(heard(), is_ours, "{mode:o}");
            }
            fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
            tell(Some(&Meeting::new(link, None)), "orders");
            assert!(!heard(), "a link leads to it");
            if std::os::unix::fs::chown(&folder, Some(4711), None).is_ok() {
                tell(Some(&own), "orders");
                assert!(!heard() && Ear::try_open(&own).is_err(), "it belongs to somebody else");
            }
        }

        #[test]
        fn only_so_many_are_told() {
            let place = tempfile::tempdir().unwrap();
            let bind = |number| {
                let socket = StdDatagram::bind(place.path().join(format!("{number}.bell"))).unwrap();
                socket.set_nonblocking(true).unwrap();
                socket
            };
            let all: Vec<_> = (0..MOST_TOLD + 20).map(bind).collect();
            tell(Some(&Meeting::new(place.path().into(), None)), "orders");
            let told = all.iter().filter(|socket| socket.recv(&mut [0; LONGEST]).is_ok()).count();
            assert_eq!(told, MOST_TOLD);
        }
    }
}
