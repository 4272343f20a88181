//! The metrics of a process, one function per family, from what the core has measured to the encoder of `prometheus-client`. Labels are
//! bounded: the queues, levels and actions of the configuration.

use std::{fmt, time::Duration};

use ichido::stat::{self, Histogram, Measures, QueueMeasures};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};

/// A process, as it is scraped.
#[derive(Debug)]
pub(crate) struct Process(pub(crate) Measures);

/// Of a message counter: its label and how it is read.
type Event = (&'static str, fn(&QueueMeasures) -> u64);

const EVENTS: [Event; 6] = [
    ("started", |queue| queue.tally.started),
    ("done", |queue| queue.tally.done),
    ("retried", |queue| queue.tally.retried),
    ("parked", |queue| queue.tally.retried + queue.tally.failed + queue.tally.snoozed),
    ("failed", |queue| queue.tally.failed),
    ("duplicate", |queue| queue.tally.duplicates),
];

impl Collector for Process {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        self.messages(&mut to)?;
        self.times(&mut to, "waiting_seconds", "Time from send to first start", |queue| {
            (&queue.tally.waiting, queue.waited)
        })?;
        self.times(&mut to, "running_seconds", "Time that a run took", |queue| (&queue.tally.running, queue.ran))?;
        self.waiting(&mut to, "backlog", "Messages that can be claimed", |backlog| Some(backlog.ready))?;
        self.oldest(&mut to)?;
        self.waiting(&mut to, "outbox_unpublished", "Messages that are to be published", |backlog| {
            backlog.unpublished
        })?;
        self.claims(&mut to)?;
        self.slots(&mut to)?;
        let mut age = to.encode_descriptor(
            "heartbeat_age_seconds",
            "Time since this process wrote its last heartbeat",
            None,
            MetricType::Gauge,
        )?;
        age.encode_gauge(&self.0.heartbeat_age.as_secs_f64())
    }
}

impl Process {
    fn messages(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Messages, by what happened to them in this process";
        let mut family = to.encode_descriptor("messages", help, None, MetricType::Counter)?;
        for queue in &self.0.queues {
            let served = EVENTS.iter().filter(|_| queue.claims.is_some());
            let sent: Event = ("sent", |queue| queue.sent);
            for (event, read) in [sent].iter().chain(served) {
                let mut labels = labels(queue);
                labels.push(("event", (*event).to_owned()));
                counter(&mut family, &labels, read(queue))?;
            }
        }
        Ok(())
    }

    fn times(
        &self,
        to: &mut DescriptorEncoder<'_>,
        name: &'static str,
        help: &str,
        read: impl Fn(&QueueMeasures) -> (&Histogram, Duration),
    ) -> fmt::Result {
        let mut family = to.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for queue in self.0.queues.iter().filter(|queue| queue.claims.is_some()) {
            let (histogram, sum) = read(queue);
            let labels = labels(queue);
            let mut metric = family.encode_family(&labels)?;
            metric.encode_histogram::<NoLabelSet>(sum.as_secs_f64(), histogram.count(), &buckets(histogram), None)?;
        }
        Ok(())
    }

    /// A gauge of what waits, of the queues where this process knows it.
    fn waiting(
        &self,
        to: &mut DescriptorEncoder<'_>,
        name: &'static str,
        help: &str,
        read: impl Fn(&stat::Backlog) -> Option<u64>,
    ) -> fmt::Result {
        let mut family = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for queue in &self.0.queues {
            if let Some(count) = queue.backlog.as_ref().and_then(&read) {
                family.encode_family(&labels(queue))?.encode_gauge(&i64::try_from(count).unwrap_or(i64::MAX))?;
            }
        }
        Ok(())
    }

    fn oldest(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "How long the oldest message that can be claimed has waited";
        let mut family = to.encode_descriptor("oldest_seconds", help, None, MetricType::Gauge)?;
        for queue in &self.0.queues {
            // Nobody waits: zero. Somebody waits and nothing says since when: not told.
            let oldest = queue.backlog.and_then(|backlog| match backlog.ready {
                0 => Some(Duration::ZERO),
                _ => backlog.oldest,
            });
            if let Some(oldest) = oldest {
                family.encode_family(&labels(queue))?.encode_gauge(&oldest.as_secs_f64())?;
            }
        }
        Ok(())
    }

    fn claims(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Statements of this process that claimed messages or found none";
        let mut family = to.encode_descriptor("claims", help, None, MetricType::Counter)?;
        for queue in &self.0.queues {
            if let Some(claims) = queue.claims {
                counter(&mut family, &labels(queue), claims)?;
            }
        }
        Ok(())
    }

    fn slots(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let mut all = to.encode_descriptor("slots", "Workers of this process", None, MetricType::Gauge)?;
        for slots in &self.0.slots {
            all.encode_family(&[("action", escaped(&slots.action))])?.encode_gauge(&number(slots.slots))?;
        }
        let help = "Workers of this process that are at a message";
        let mut busy = to.encode_descriptor("slots_busy", help, None, MetricType::Gauge)?;
        for slots in &self.0.slots {
            busy.encode_family(&[("action", escaped(&slots.action))])?.encode_gauge(&number(slots.busy))?;
        }
        Ok(())
    }
}

fn counter(family: &mut MetricEncoder<'_>, labels: &Labels, count: u64) -> fmt::Result {
    family.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)
}

type Labels = Vec<(&'static str, String)>;

fn labels(queue: &QueueMeasures) -> Labels {
    vec![("queue", escaped(&queue.queue)), ("level", escaped(queue.level.as_deref().unwrap_or_default()))]
}

/// The encoder writes a label's value as it is.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// What is in each bucket, up to its bound; the last one has no bound.
fn buckets(histogram: &Histogram) -> Vec<(f64, u64)> {
    let mut before = 0;
    let mut buckets: Vec<_> = stat::bounds()
        .map(|bound| {
            let below = histogram.below(bound);
            (bound.as_secs_f64(), below - std::mem::replace(&mut before, below))
        })
        .collect();
    buckets.push((f64::MAX, histogram.count() - before));
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;
    use ichido::stat::Tally;

    #[test]
    fn buckets_add_up_to_what_was_counted() {
        let mut tally = Tally::default();
        let times = [0, 1_023, 1_024, 50_000, 3_600_000_000, 5_000_000_000];
        for micros in times {
            tally.running.add(Duration::from_micros(micros));
        }
        let buckets = buckets(&tally.running);
        assert_eq!(buckets.len(), 24);
        assert_eq!(buckets[0], (0.001_024, 2), "below a millisecond");
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 6);
        assert_eq!(buckets.last(), Some(&(f64::MAX, 1)), "longer than the longest bound");
    }

    #[test]
    fn a_label_keeps_its_quotes() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
