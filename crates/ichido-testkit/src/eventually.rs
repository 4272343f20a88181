//! Waiting for a condition: the only way in which tests wait for what another task, process or server does. A test that must
//! not depend on the speed of the machine looks again and again, and gives up only when something is certainly wrong.

use std::{fmt::Display, panic::Location, time::Duration};

use tokio::time::{Instant, sleep, timeout};

/// Nothing that works takes so long, however busy the machine is.
pub const LIMIT: Duration = Duration::from_mins(3);

/// What a look says: it holds now, with something to go on with, or it does not hold yet, with what was seen instead.
pub trait Look {
    /// What the test goes on with.
    type Found;

    /// What was found, or what was seen instead.
    ///
    /// # Errors
    /// Not yet.
    fn found(self) -> Result<Self::Found, String>;
}

impl Look for bool {
    type Found = ();

    fn found(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("not so".to_owned()) }
    }
}

impl<T> Look for Option<T> {
    type Found = T;

    fn found(self) -> Result<T, String> {
        self.ok_or_else(|| "nothing".to_owned())
    }
}

impl<T, E: Display> Look for Result<T, E> {
    type Found = T;

    fn found(self) -> Result<T, String> {
        self.map_err(|seen| seen.to_string())
    }
}

/// Looks until it holds; past [`LIMIT`] the test fails with what was expected and what was seen last.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use ichido_testkit::eventually;
///
/// let mut looks = 0;
/// let third = eventually("the third look", async || {
///     looks += 1;
///     if looks == 3 { Ok(looks) } else { Err(format!("look {looks}")) }
/// });
/// assert_eq!(third.await, 3);
/// # }
/// ```
#[track_caller]
pub fn eventually<L: Look>(expected: impl Display, mut look: impl AsyncFnMut() -> L) -> impl Future<Output = L::Found> {
    let caller = Location::caller();
    async move {
        let since = Instant::now();
        let mut pause = Duration::from_millis(2);
        loop {
            match look().await.found() {
                Ok(found) => return found,
                Err(seen) => assert!(since.elapsed() < LIMIT, "{caller}: expected: {expected}; seen: {seen}"),
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }
}

/// Awaits an event that certainly comes; past [`LIMIT`] the test fails with what was expected.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use ichido_testkit::in_time;
///
/// let (tell, told) = tokio::sync::oneshot::channel();
/// tokio::spawn(async { tell.send(7) });
/// assert_eq!(in_time("somebody tells", told).await, Ok(7));
/// # }
/// ```
#[track_caller]
pub fn in_time<T>(expected: impl Display, event: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move { timeout(LIMIT, event).await.unwrap_or_else(|_| panic!("{caller}: expected: {expected}")) }
}
