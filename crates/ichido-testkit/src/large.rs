//! Places in long lists of messages, for tests of what a page reads: each store fills its tables in its own way and counts in its own way.

use ichido::inspect::{Cursor, Listed, MessageFilter};

/// So many messages are on a page.
pub const PAGE: usize = 20;

/// A page of each list that begins with the first message, and one that begins far inside. The queues are `mail` (managed: a fifth of so many
/// rows is ready, and one row of twenty is ready and in a group, `g` with a number below 1000), `orders` (a table), and `paid` (a broker's, with
/// ids of twelve digits). The last two are places among the waiting and failed messages of `mail`.
#[must_use]
pub fn pages(rows: u32, waiting: [String; 2], failed: [String; 2]) -> Vec<MessageFilter> {
    let half = (rows / 2).to_string();
    let alone = |last: String| vec!["alone".to_owned(), last];
    let places = [
        ("mail", Listed::Ready, alone(half.clone())),
        ("mail", Listed::Ready, vec!["grouped".into()]),
        ("mail", Listed::Ready, vec!["grouped".into(), "g509".into(), half.clone()]),
        ("mail", Listed::Waiting, waiting.into()),
        ("mail", Listed::Failed, failed.into()),
        ("orders", Listed::Ready, alone(half)),
        ("paid", Listed::Ready, alone(format!("{:0>12}", rows / 8))),
    ];
    let page = |queue: &str, state, values: Vec<String>| {
        let mut filter = MessageFilter::new(queue, state, PAGE);
        filter.after = Some(Cursor { queue: queue.into(), state, values: values.into_iter().map(Some).collect() });
        filter
    };
    let both = |(queue, state, values)| [page(queue, state, Vec::new()), page(queue, state, values)];
    places.into_iter().flat_map(both).collect()
}
