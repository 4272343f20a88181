//! In which order the screen of `status --watch` shows queues and processes, and the keys that change it. The column that decides is
//! marked in its heading.

use std::cmp::{Ordering, Reverse};

use ichido::{
    by_hand::Standing,
    inspect::{ProcessState, QueueCounts},
};

const QUEUES: [&str; 6] = ["QUEUE", "READY", "OLDEST", "CLAIMED", "WAITING", "FAILED"];
const PROCESSES: [&str; 6] = ["PROCESS", "REQUEST ID", "HOST", "PID", "AGE", "STATE"];

/// The order; by default as the store says it, without a mark.
#[derive(Debug, Default)]
pub(super) struct Order {
    queues: Option<By>,
    processes: Option<By>,
}

/// A column, and whether its order is turned round.
#[derive(Debug, Clone, Copy, Default)]
struct By {
    column: usize,
    reversed: bool,
}

impl By {
    fn next(by: Option<By>, columns: usize) -> By {
        By { column: by.map_or(0, |by| (by.column + 1) % columns), reversed: false }
    }

    fn reversed(by: Option<By>) -> By {
        let By { column, reversed } = by.unwrap_or_default();
        By { column, reversed: !reversed }
    }

    fn apply(self, order: Ordering) -> Ordering {
        if self.reversed { order.reverse() } else { order }
    }
}

impl Order {
    /// As the screen begins: by the names.
    pub(super) fn by_name() -> Self {
        Order { queues: Some(By::default()), processes: Some(By::default()) }
    }

    /// What a key changes: a small letter takes the next column, a capital one turns the order round.
    pub(super) fn press(&mut self, key: char) {
        match key {
            's' => self.queues = Some(By::next(self.queues, QUEUES.len())),
            'S' => self.queues = Some(By::reversed(self.queues)),
            'p' => self.processes = Some(By::next(self.processes, PROCESSES.len())),
            'P' => self.processes = Some(By::reversed(self.processes)),
            _ => {}
        }
    }

    pub(super) fn queue_headings(&self) -> [String; 6] {
        marked(QUEUES, self.queues)
    }

    pub(super) fn process_headings(&self) -> [String; 6] {
        marked(PROCESSES, self.processes)
    }

    /// The measures of the queues follow the queues.
    pub(super) fn sort(&self, view: &mut Standing) {
        if let Some(by) = self.queues {
            let queues = &mut view.overview.queues;
            queues.sort_by(|one, other| by.apply(compare_queues(by.column, one, other)));
            let place = |queue: &str| queues.iter().position(|known| known.queue == queue);
            view.loads.sort_by_key(|load| place(&load.queue).unwrap_or(usize::MAX));
        }
        if let Some(by) = self.processes {
            view.overview.processes.sort_by(|one, other| by.apply(compare_processes(by.column, one, other)));
        }
    }
}

/// Names from A to Z, numbers from the greatest: what deserves a look comes first.
fn compare_queues(column: usize, one: &QueueCounts, other: &QueueCounts) -> Ordering {
    let number = |queue: &QueueCounts| match column {
        1 => queue.ready,
        2 => queue.oldest_seconds.unwrap_or(-1),
        3 => queue.claimed,
        4 => queue.waiting,
        5 => queue.failed,
        _ => 0,
    };
    number(other).cmp(&number(one)).then_with(|| one.queue.cmp(&other.queue))
}

fn compare_processes(column: usize, one: &ProcessState, other: &ProcessState) -> Ordering {
    let order = match column {
        1 => one.request_id.cmp(&other.request_id),
        2 => one.host.cmp(&other.host),
        3 => one.pid.cmp(&other.pid),
        4 => Reverse(one.age_seconds).cmp(&Reverse(other.age_seconds)),
        5 => one.alive.cmp(&other.alive),
        _ => Ordering::Equal,
    };
    order.then_with(|| one.id.cmp(&other.id))
}

fn marked<const N: usize>(headings: [&str; N], by: Option<By>) -> [String; N] {
    std::array::from_fn(|column| match by {
        Some(by) if by.column == column => format!("{}{}", headings[column], if by.reversed { "▲" } else { "▼" }),
        _ => headings[column].to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str, ready: i64, failed: i64) -> QueueCounts {
        QueueCounts {
            queue: name.into(),
            ready,
            recent: None,
            claimed: 0,
            waiting: 0,
            failed,
            oldest_seconds: None,
            held_groups: 0,
            outbox: None,
        }
    }

    fn names(order: &Order) -> Vec<String> {
        let mut queues = [queue("a", 1, 7), queue("b", 3, 0), queue("c", 3, 9)];
        let by = order.queues.unwrap();
        queues.sort_by(|one, other| by.apply(compare_queues(by.column, one, other)));
        queues.map(|queue| queue.queue).to_vec()
    }

    #[test]
    fn keys_go_through_the_columns_and_turn_them_round() {
        let mut order = Order::by_name();
        assert_eq!(names(&order), ["a", "b", "c"]);
        order.press('s');
        assert_eq!(
            (names(&order), &*order.queue_headings()[1]),
            (["b", "c", "a"].map(String::from).to_vec(), "READY▼")
        );
        order.press('S');
        assert_eq!(
            (names(&order), &*order.queue_headings()[1]),
            (["a", "c", "b"].map(String::from).to_vec(), "READY▲")
        );
        for _ in 1..5 {
            order.press('s');
        }
        assert_eq!(
            (names(&order), &*order.queue_headings()[5]),
            (["c", "a", "b"].map(String::from).to_vec(), "FAILED▼")
        );
        order.press('s');
        assert_eq!(names(&order), ["a", "b", "c"]);
        assert_eq!(order.process_headings()[0], "PROCESS▼");
        assert_eq!(Order::default().queue_headings(), QUEUES);
    }
}
