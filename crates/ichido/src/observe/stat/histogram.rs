//! How long things took, in buckets whose width grows with the time: eight for every doubling. So any number of times fits
//! into a line of text, histograms of many minutes and processes are added up, and what is read from them is exact to a sixteenth.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

/// A quantile is at most this part of the true one away from it: half the width of a bucket.
pub const ERROR: f64 = 1.0 / 16.0;

/// Buckets per doubling are two to this power.
const FINENESS: u32 = 3;

/// Times below are buckets of a microsecond each.
const EXACT: u64 = 1 << FINENESS;

/// Times from 2^42 microseconds on, seven weeks, are all in the last bucket.
const LONGEST: u64 = (1 << 42) - 1;

/// How many buckets there are.
pub(crate) const BUCKETS: usize = bucket(LONGEST) + 1;

/// The bucket of a time in microseconds.
#[allow(clippy::cast_possible_truncation, reason = "there are some hundred buckets")]
pub(crate) const fn bucket(micros: u64) -> usize {
    let micros = if micros < LONGEST { micros } else { LONGEST };
    if micros < EXACT {
        return micros as usize;
    }
    let doublings = micros.ilog2() - FINENESS;
    ((doublings as u64 + 1) * EXACT + ((micros >> doublings) & (EXACT - 1))) as usize
}

/// The time in the middle of a bucket, in microseconds.
fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return bucket;
    }
    let doublings = bucket / EXACT - 1;
    let least = (EXACT + bucket % EXACT) << doublings;
    least + (1 << doublings) / 2
}

/// Counted times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram(BTreeMap<usize, u64>);

impl Histogram {
    /// Counts a time.
    pub fn add(&mut self, time: Duration) {
        *self.0.entry(bucket(micros(time))).or_default() += 1;
    }

    pub(crate) fn of_buckets(counts: impl Iterator<Item = u64>) -> Self {
        Histogram(counts.enumerate().filter(|(_, count)| *count > 0).collect())
    }

    /// Adds what another one has counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (bucket, count) in &other.0 {
            *self.0.entry(*bucket).or_default() += count;
        }
    }

    /// What was counted since an earlier state of the same histogram.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Self {
        let news = |(bucket, count): (&usize, &u64)| {
            let news = count.saturating_sub(earlier.0.get(bucket).copied().unwrap_or_default());
            (news > 0).then_some((*bucket, news))
        };
        Histogram(self.0.iter().filter_map(news).collect())
    }

    /// How many times were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// All of them together, up to [`ERROR`]; what is longer than seven weeks counts as seven weeks.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.0.iter().fold(Duration::ZERO, |sum, (bucket, count)| {
            sum.saturating_add(Duration::from_micros(middle(*bucket).saturating_mul(*count)))
        })
    }

    /// How many of them are no longer than this, as far as buckets can tell.
    #[must_use]
    pub fn up_to(&self, time: Duration) -> u64 {
        self.0.range(..=bucket(micros(time))).map(|(_, count)| count).sum()
    }

    /// How many of them are below this bound; exact for each of [`bounds`], where a bucket begins.
    #[must_use]
    pub fn below(&self, bound: Duration) -> u64 {
        self.0.range(..bucket(micros(bound))).map(|(_, count)| count).sum()
    }

    /// So many of a thousand are no longer than this, up to [`ERROR`]; none if nothing was counted.
    #[must_use]
    pub fn quantile(&self, per_mille: u64) -> Option<Duration> {
        let rank = (self.count() * per_mille.min(1000)).div_ceil(1000).max(1);
        let mut seen = 0;
        let found = self.0.iter().find(|(_, count)| {
            seen += *count;
            seen >= rank
        });
        found.map(|(bucket, _)| Duration::from_micros(middle(*bucket)))
    }
}

/// The bounds for monitors that cannot take every bucket: one per doubling, from a millisecond to more than an hour. A bucket begins at
/// each of them, so that what is told is exact.
pub fn bounds() -> impl Iterator<Item = Duration> {
    (10..=32).map(|doublings| Duration::from_micros(1 << doublings))
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The form in which stores keep it: `bucket:count`, with a space between.
impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (bucket, count)) in self.0.iter().enumerate() {
            let space = if at > 0 { " " } else { "" };
            write!(f, "{space}{bucket}:{count}")?;
        }
        Ok(())
    }
}

impl FromStr for Histogram {
    type Err = crate::Error;

    fn from_str(text: &str) -> crate::error::Result<Self> {
        let read = |pair: &str| {
            let (bucket, count) = pair.split_once(':')?;
            let bucket: usize = bucket.parse().ok().filter(|bucket| *bucket < BUCKETS)?;
            Some((bucket, count.parse().ok()?))
        };
        let pairs = text.split_whitespace().map(read).collect::<Option<BTreeMap<_, _>>>();
        pairs.map(Histogram).ok_or_else(|| crate::Error::Setup(format!("`{text}` is not a histogram")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        times.into_iter().for_each(|micros| histogram.add(Duration::from_micros(micros)));
        histogram
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap_and_the_last_one_takes_the_rest() {
        let mut last = 0;
        for micros in 0..100_000 {
            let this = bucket(micros);
            assert!(this == last || this == last + 1, "{micros} is in {this}, the one before in {last}");
            last = this;
        }
        assert_eq!((bucket(0), bucket(7), bucket(8), bucket(15), bucket(16)), (0, 7, 8, 15, 16));
        assert_eq!((bucket(LONGEST), bucket(u64::MAX)), (BUCKETS - 1, BUCKETS - 1));
        assert_eq!(BUCKETS, 320);
    }

    #[test]
    fn quantiles_are_within_the_stated_error() {
        let mut lot = fastrand::Rng::with_seed(7);
        for span in [10_u32, 20, 30, 40] {
            let mut time = || {
                let doublings = lot.u32(1..=span);
                lot.u64(1..1 << doublings)
            };
            let mut times: Vec<u64> = (0..10_000).map(|_| time()).collect();
            let histogram = of(times.iter().copied());
            times.sort_unstable();
            for per_mille in [1, 100, 500, 950, 990, 1000] {
                #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
                let exact = times[10 * per_mille - 1] as f64;
                let found = histogram.quantile(per_mille as u64).unwrap().as_secs_f64() * 1e6;
                assert!((found - exact).abs() <= exact * ERROR, "{per_mille} of {span}: {found}, exactly {exact}");
            }
        }
    }

    #[test]
    fn a_sum_is_within_the_stated_error() {
        let mut lot = fastrand::Rng::with_seed(7);
        let times: Vec<u64> = (0..10_000).map(|_| lot.u64(1..100_000_000)).collect();
        let exact = Duration::from_micros(times.iter().sum()).as_secs_f64();
        let found = of(times).sum().as_secs_f64();
        assert!((found - exact).abs() <= exact * ERROR, "{found}, exactly {exact}");
        assert_eq!(of([1, 2, 3, 3]).sum(), Duration::from_micros(9), "small times are exact");
    }

    #[test]
    fn small_times_are_exact_and_nothing_has_no_quantile() {
        let histogram = of([1, 2, 3, 4]);
        let found = [250, 500, 750, 1000].map(|per_mille| histogram.quantile(per_mille).unwrap().as_micros());
        assert_eq!(found, [1, 2, 3, 4]);
        assert_eq!(Histogram::default().quantile(500), None);
    }

    #[test]
    fn parts_add_up_to_the_whole_and_news_are_what_is_not_old() {
        let (one, two) = (of([5, 500, 50_000]), of([5, 7_000_000]));
        let mut both = one.clone();
        both.merge(&two);
        assert_eq!(both, of([5, 500, 50_000, 5, 7_000_000]));
        assert_eq!(both.since(&one), two);
        assert_eq!((both.count(), both.up_to(Duration::from_micros(500))), (5, 3));
    }

    #[test]
    fn a_bucket_begins_at_each_bound() {
        for bound in bounds() {
            let micros = micros(bound);
            assert!(bucket(micros - 1) < bucket(micros), "{bound:?}");
            let histogram = of([micros - 1, micros]);
            assert_eq!(histogram.below(bound), 1, "{bound:?}");
        }
        assert_eq!(bounds().count(), 23);
    }

    #[test]
    fn what_is_written_is_read_back_and_rubbish_is_refused() {
        let histogram = of([0, 9, 9, 1_000_000, u64::MAX]);
        assert_eq!(histogram.to_string(), "0:1 9:2 143:1 319:1");
        assert_eq!(histogram.to_string().parse::<Histogram>().unwrap(), histogram);
        assert_eq!("".parse::<Histogram>().unwrap(), Histogram::default());
        for rubbish in ["1", "1:", ":1", "1:-1", "320:1", "x:1"] {
            assert!(rubbish.parse::<Histogram>().is_err(), "{rubbish}");
        }
    }
}
