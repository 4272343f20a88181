//! Pages that refresh themselves: the same address, asked for as `text/event-stream`, answers with the page's content whenever that has
//! changed, and says why if there is none. The script swaps the parts that are marked `data-live`; it closes the stream when its tab is hidden.

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

/// Between two looks at a list.
const LIST_AGAIN: Duration = Duration::from_secs(10);

/// A page that takes long is looked at less often: little of the time is spent on it.
const PART: u32 = 300;
const RARELY: Duration = Duration::from_secs(30);

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
    let (began, mut last, mut pause) = (Instant::now(), News::Page(String::new()), AGAIN);
    while began.elapsed() < LONGEST {
        tokio::select! {
            () = send.closed() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let asked = Instant::now();
        let news = News::of(render(visit).await);
        pause = (asked.elapsed() * PART).clamp(if visit.has_list() { LIST_AGAIN } else { AGAIN }, RARELY);
        if news != last {
            if send.send(news.event()).await.is_err() {
                return;
            }
            last = news;
        }
    }
}

/// What a browser is told.
#[derive(Debug, PartialEq, Eq)]
enum News {
    /// The page as it is now.
    Page(String),
    /// Why there is none now. The database is asked again; until then nobody may take what is on the screen for the present.
    Away(String),
}

impl News {
    fn of(rendered: Result<String, Problem>) -> Self {
        match rendered {
            Ok(page) => News::Page(content(&page).to_owned()),
            Err(why) => News::Away(why.detail),
        }
    }

    fn event(&self) -> Event {
        match self {
            News::Page(content) => Event::default().event("page").data(content),
            News::Away(why) => Event::default().event("away").data(why),
        }
    }
}

/// The menu, which has a count, and what is inside the frame.
fn content(page: &str) -> &str {
    let from = page.find("<nav").unwrap_or(0);
    let to = page.rfind("</main>").unwrap_or(page.len());
    &page[from..to]
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::{News, content};
    use crate::Problem;

    #[test]
    fn menu_and_page_are_sent_again() {
        assert_eq!(content("<body><nav>1</nav><main><p>2</main></body>"), "<nav>1</nav><main><p>2");
        assert_eq!(content("<p>"), "<p>");
    }

    #[test]
    fn a_database_that_is_away_is_told() {
        let away = News::of(Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "cannot connect")));
        assert_eq!(away, News::Away("cannot connect".into()));
        assert_ne!(away, News::of(Ok("<main>".into())), "and so is that it is back");
    }
}
