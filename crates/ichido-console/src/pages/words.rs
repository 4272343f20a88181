//! Numbers and times as people read them on a page. The pages' views use it; nothing here knows a store.

use std::time::Duration;

use ichido::{inspect::MOST_COUNTED, stat::spell};

/// What is not known, or is nothing.
pub(super) const NONE: &str = "–";

/// A number with its thousands apart.
pub(super) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let first = (digits.len() - 1) % 3 + 1;
    let mut text = if number < 0 { String::from("−") } else { String::new() };
    text.push_str(&digits[..first]);
    for at in (first..digits.len()).step_by(3) {
        text.push(',');
        text.push_str(&digits[at..at + 3]);
    }
    text
}

/// A count of the database's, which ends at a bound.
pub(super) fn counted(number: i64) -> String {
    let cut = u64::try_from(number).is_ok_and(|number| number >= MOST_COUNTED);
    if cut { format!("≥ {}", grouped(number)) } else { grouped(number) }
}

/// So many of something.
pub(super) fn plural(number: usize, what: &str) -> String {
    format!("{} {what}{}", grouped(whole(number)), if number == 1 { "" } else { "s" })
}

/// A number that fits.
pub(super) fn whole(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// A span of whole seconds.
pub(super) fn seconds(seconds: i64) -> String {
    match u64::try_from(seconds).unwrap_or_default() {
        0 => "under 1 s".into(),
        few @ 1..90 => format!("{few} s"),
        long if long < 5400 => format!("{} min", long / 60),
        long if long < 172_800 => format!("{:.1} h", Duration::from_secs(long).as_secs_f64() / 3600.0),
        long => format!("{} days", long / 86_400),
    }
}

/// The same, where it is known.
pub(super) fn seconds_or(found: Option<i64>) -> String {
    found.map_or_else(|| NONE.into(), seconds)
}

/// A time in milliseconds, with the digits that matter.
pub(super) fn milliseconds(found: Option<f64>) -> String {
    found.map_or_else(|| NONE.into(), |time| spell(Duration::from_secs_f64((time / 1000.0).max(0.0))))
}

/// A rate.
pub(super) fn rate(found: Option<f64>) -> String {
    match found {
        None => NONE.into(),
        Some(rate) if rate >= 10.0 => {
            #[expect(clippy::cast_possible_truncation, reason = "a rate for people")]
            let rate = rate.round() as i64;
            grouped(rate)
        }
        Some(rate) if rate > 0.0 => format!("{rate:.1}"),
        Some(_) => "0".into(),
    }
}

/// A time of the database's, to the second: `2026-11-18 06:05:23`.
pub(super) fn clock(text: &str) -> String {
    let text = text.split('.').next().unwrap_or(text).trim_end_matches('Z');
    text.replacen('T', " ", 1)
}

/// Several things in a sentence, the first of them by name.
pub(super) fn listed(names: &[String], most: usize) -> String {
    match names.len().checked_sub(most) {
        Some(more) if more > 0 => format!("{} and {more} more", names[..most].join(", ")),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let texts = [0, 12, 999, 1000, 12_345, 1_234_567, -4200].map(grouped);
        assert_eq!(texts, ["0", "12", "999", "1,000", "12,345", "1,234,567", "−4,200"]);
        assert_eq!(counted(99_999), "99,999");
        assert_eq!(counted(100_000), "≥ 100,000");
    }

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        let texts = [0, 1, 89, 90, 5399, 7200, 172_800].map(seconds);
        assert_eq!(texts, ["under 1 s", "1 s", "89 s", "1 min", "89 min", "2.0 h", "2 days"]);
        assert_eq!(milliseconds(Some(38.4)), "38 ms");
        assert_eq!(milliseconds(None), NONE);
    }

    #[test]
    fn times_of_the_database_are_told_to_the_second() {
        for text in ["2026-11-18T06:05:23.224Z", "2026-11-18 06:05:23.5", "2026-11-18T06:05:23Z"] {
            assert_eq!(clock(text), "2026-11-18 06:05:23");
        }
    }

    #[test]
    fn a_long_list_ends_with_how_many_more() {
        let names = ["a", "b", "c"].map(String::from);
        assert_eq!(listed(&names, 3), "a, b, c");
        assert_eq!(listed(&names, 2), "a, b and 1 more");
    }
}
