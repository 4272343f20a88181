use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Connections are numbers; the second is refused.
#[derive(Default)]
struct Numbers {
    opened: AtomicUsize,
    open: Arc<AtomicUsize>,
    orphans: Mutex<Vec<usize>>,
    refuse: bool,
}

struct Number(usize, Arc<AtomicUsize>);

impl Drop for Number {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Connector for Numbers {
    type Connection = Number;
    type Error = io::Error;

    async fn connect(&self, _: Duration) -> io::Result<Number> {
        let number = self.opened.fetch_add(1, Ordering::SeqCst);
        if self.refuse {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        self.open.fetch_add(1, Ordering::SeqCst);
        Ok(Number(number, self.open.clone()))
    }

    fn orphaned(&self, connection: Number) {
        self.orphans.lock().unwrap().push(connection.0);
    }
}

fn connections(size: u32) -> Connections<Numbers> {
    Connections::new(size, Numbers::default(), Deadline::new(Duration::from_millis(1)))
}

fn open(connections: &Connections<Numbers>) -> usize {
    connections.connector().open.load(Ordering::SeqCst)
}

#[tokio::test]
async fn what_was_given_back_last_is_used_first() {
    let connections = connections(3);
    let (first, second) = (connections.take().await.unwrap(), connections.take().await.unwrap());
    first.give_back();
    second.give_back();
    assert_eq!(connections.take().await.unwrap().0, 1);
    assert_eq!(open(&connections), 1, "what is dropped is closed");
    assert_eq!(connections.take().await.unwrap().0, 0);
}

#[tokio::test]
async fn those_that_are_opened_early_are_used_first() {
    let connections = connections(3);
    connections.open(2).await.unwrap();
    assert_eq!(open(&connections), 2);
    connections.open(9).await.unwrap();
    assert_eq!(open(&connections), 3, "no more than there may be");
    assert!(connections.take().await.unwrap().0 < 3, "nothing new");
}

#[tokio::test]
async fn whoever_drops_a_connection_frees_its_place() {
    let connections = connections(1);
    let held = connections.take().await.unwrap();
    let waits = tokio::spawn({
        let connections = connections.clone();
        async move { connections.take().await.unwrap().0 }
    });
    tokio::task::yield_now().await;
    assert!(!waits.is_finished(), "there is one place");
    drop(held);
    assert_eq!(waits.await.unwrap(), 1);
}

#[tokio::test]
async fn a_refusal_is_an_error_at_once_and_costs_no_place() {
    let numbers = Numbers { refuse: true, ..Numbers::default() };
    let connections = Connections::new(1, numbers, Deadline::new(Duration::from_hours(1)));
    for tries in 1..=3 {
        let refused = connections.take().await.err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(connections.connector().opened.load(Ordering::SeqCst), tries);
    }
}

#[tokio::test]
async fn after_a_silence_nobody_gets_a_connection_from_before() {
    let connections = connections(3);
    let [idle, busy, lost] =
        [connections.take().await.unwrap(), connections.take().await.unwrap(), connections.take().await.unwrap()];
    idle.give_back();
    let silent: io::Result<()> = connections.deadline().within(std::future::pending()).await;
    assert_eq!(silent.unwrap_err().kind(), io::ErrorKind::TimedOut);
    busy.give_back();
    drop(lost);
    assert_eq!(*connections.connector().orphans.lock().unwrap(), [2], "its session may live on");
    let heard = connections.take().await.unwrap();
    assert_eq!(heard.0, 1, "the server has answered there since");
    assert_eq!(connections.take().await.unwrap().0, 3);
}
