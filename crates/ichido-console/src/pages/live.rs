//! Pages that refresh themselves: the same address, asked for as `text/event-stream`, answers with the page's content whenever that has
//! changed. The script swaps the parts that are marked `data-live`; it closes the stream when its tab is hidden.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{
    http::StatusCode,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_core::Stream;
use tokio::sync::mpsc;

use super::visit::{Render, Visit};
use crate::Problem;

/// Between two looks.
const AGAIN: Duration = Duration::from_secs(2);

/// A browser asks again after so long: who was logged out is not told more.
const LONGEST: Duration = Duration::from_mins(5);

/// So many streams at once.
const MOST: usize = 64;

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Counts a stream for as long as it is open.
struct Counted;

impl Counted {
    /// None if there are enough; it is not counted then.
    fn new() -> Option<Self> {
        let counted = Counted;
        (OPEN.fetch_add(1, Ordering::Relaxed) < MOST).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Events(mpsc::Receiver<Event>);

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|event| event.map(Ok))
    }
}

/// The page, again and again.
pub(super) fn stream(visit: Visit, render: Render) -> Response {
    let Some(counted) = Counted::new() else {
        let text = "too many pages refresh themselves; this one does not";
        return Problem::later(StatusCode::SERVICE_UNAVAILABLE, 60, text).into_response();
    };
    let (send, events) = mpsc::channel(1);
    tokio::spawn(async move {
        let _counted = counted;
        refresh(&Arc::new(visit), render, &send).await;
    });
    Sse::new(Events(events)).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response()
}

/// Until the browser has left.
async fn refresh(visit: &Visit, render: Render, send: &mpsc::Sender<Event>) {
    let (began, mut last) = (Instant::now(), String::new());
    while began.elapsed() < LONGEST {
        tokio::select! {
            () = send.closed() => return,
            () = tokio::time::sleep(AGAIN) => {}
        }
        // A database that is away now is asked again.
        let Ok(page) = render(visit).await else { continue };
        let content = content(&page);
        if content != last {
            content.clone_into(&mut last);
            if send.send(Event::default().event("page").data(content)).await.is_err() {
                return;
            }
        }
    }
}

/// What is inside the frame.
fn content(page: &str) -> &str {
    let from = page.find("<main").unwrap_or(0);
    let to = page.rfind("</main>").unwrap_or(page.len());
    &page[from..to]
}

#[cfg(test)]
mod tests {
    use super::content;

    #[test]
    fn the_frame_is_not_sent_again() {
        assert_eq!(content("<body><nav></nav><main id=\"main\"><p>1</main></body>"), "<main id=\"main\"><p>1");
        assert_eq!(content("<p>"), "<p>");
    }
}
