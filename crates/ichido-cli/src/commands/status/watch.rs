//! `ichido status --watch` on a terminal: looks every two seconds, shows it as a page on a screen of its own, and follows keys, the
//! terminal's size and signals meanwhile. A database that is away for a while is told, and asked again.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use ichido::{by_hand::Standing, inspect::ParkedFilter};

use super::{
    AGAIN,
    page::{Page, Seen},
};
use crate::{
    config::Config,
    failure::Failure,
    lanes::targets,
    open::Backend,
    screen::{Event, Events, Screen},
};

/// So many errors are shown at most.
const ERRORS: u32 = 20;

/// The age of what is seen is shown in seconds.
const TICK: Duration = Duration::from_secs(1);

/// Returns the exit code when the user leaves. The first look comes before the screen: what is wrong from the start is told as always.
pub(super) async fn watch<S: Backend>(store: &S, config: &Config) -> Result<u8, Failure> {
    let first = Seen::of(store, config).await.map_err(|error| Failure::of::<S>(&error))?;
    let mut page = Page::new(format!("ichido status   {}", config.file), first);
    let mut events = Events::listen()?;
    let screen = Screen::enter()?;
    loop {
        let mut look = pin!(async {
            tokio::time::sleep(AGAIN).await;
            Seen::of(store, config).await
        });
        loop {
            screen.draw(&page.lines(Screen::size()))?;
            tokio::select! {
                seen = &mut look => {
                    match seen {
                        Ok(seen) => page.show(seen),
                        Err(error) => page.keep(error.in_full().to_string()),
                    }
                    break;
                }
                event = events.next() => match event {
                    Event::Leave(code) => return Ok(code),
                    Event::Key(key) => page.press(key),
                    Event::Resized => {}
                },
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }
}

impl Seen {
    async fn of<S: Backend>(store: &S, config: &Config) -> ichido::error::Result<Self> {
        let view = Standing::of(store, &targets(config)).await?;
        let mut last = ParkedFilter::default();
        (last.newest, last.waiting, last.limit) = (true, true, ERRORS);
        let has_errors = view.overview.queues.iter().any(|queue| queue.failed + queue.waiting > 0);
        let errors = if has_errors { store.parked(&last).await? } else { Vec::new() };
        Ok(Seen { view, errors, at: Instant::now() })
    }
}
