//! Times as operators write them: a duration like "30s" or "1h30m", a moment like "2026-12-24T18:00:00+01:00". The command line, its configuration
//! and the console read them here. The parser of durations is our own: that of `humantime` reads "1 0s" as ten seconds and "5M" as five months, and
//! panics near its limits.

use std::time::{Duration, SystemTime};

/// A century. More is no intention, and would overflow the sums that deadlines are.
const LONGEST: Duration = Duration::from_hours(24 * 365 * 100);

const TIMES: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a duration: whole numbers with `ms`, `s`, `m`, `h` or `d`, such as "30s" or "1h30m".
///
/// # Errors
/// A text that says what was found and what to write.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    let mut milliseconds = Some(0_u64);
    if rest.is_empty() {
        return Err("the duration is empty; write it like \"30s\"".to_owned());
    }
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit());
        let (unit, after) = split(after, |c| !c.is_ascii_digit());
        let factor = factor(text, number, unit.trim())?;
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        milliseconds = milliseconds.zip(part).and_then(|(sum, part)| sum.checked_add(part));
        rest = after;
    }
    let duration = milliseconds.map(Duration::from_millis).filter(|sum| *sum <= LONGEST);
    duration.ok_or_else(|| format!("{} is too long; the maximum is \"36500d\"", quoted(text)))
}

/// Reads a time as RFC 3339 writes it, with `Z` or an offset: "2026-12-24T18:00:00+01:00".
///
/// # Errors
/// A text that says what was found and what to write.
pub fn parse_time(text: &str) -> Result<SystemTime, String> {
    let unreadable = || format!("{} is not a valid time; write it like \"2026-12-24T18:00:00Z\"", quoted(text));
    let time = text.trim();
    let (local, offset) = match time.strip_suffix(['Z', 'z']) {
        Some(local) => (local, Some((false, Duration::ZERO))),
        None => time
            .split_at_checked(time.len().saturating_sub(6))
            .map(|(local, rest)| (local, offset(rest)))
            .ok_or_else(unreadable)?,
    };
    let (west, offset) = offset.ok_or_else(unreadable)?;
    let utc = humantime::parse_rfc3339(&format!("{local}Z")).map_err(|_| unreadable())?;
    let shifted = if west { utc.checked_add(offset) } else { utc.checked_sub(offset) };
    shifted.ok_or_else(unreadable)
}

/// An offset like "+01:00": whether it is west of Greenwich, and by how much.
fn offset(text: &str) -> Option<(bool, Duration)> {
    let (sign, rest) = text.split_at_checked(1)?;
    let (hours, minutes) = rest.split_once(':')?;
    let number = |text: &str, most: u64| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|number| digits && *number <= most)
    };
    let west = match sign {
        "+" => false,
        "-" => true,
        _ => return None,
    };
    Some((west, Duration::from_secs(number(hours, 23)? * 3600 + number(minutes, 59)? * 60)))
}

/// The milliseconds in one unit.
fn factor(text: &str, number: &str, unit: &str) -> Result<u64, String> {
    let known = TIMES.iter().find(|(name, _)| *name == unit);
    match known {
        Some((_, factor)) if !number.is_empty() => Ok(*factor),
        None if unit.is_empty() => Err(format!("{} has no unit; write it like \"{number}s\"", quoted(text))),
        _ => Err(no_duration(text)),
    }
}

fn no_duration(text: &str) -> String {
    let found = quoted(text);
    format!("{found} is not a valid duration; write a whole number with ms, s, m, h or d, like \"30s\"")
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// A text in quotes, without control characters and not longer than a line.
#[must_use]
pub fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    let short: String = text.chars().take(SHOWN).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("\"{}{more}\"", short.escape_debug())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::parse_time;

    #[test]
    fn a_time_has_an_offset_and_rubbish_is_refused() {
        let at = |seconds| Ok(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(parse_time("1970-01-02T00:00:00Z"), at(86_400));
        assert_eq!(parse_time(" 1970-01-02T00:00:00+01:30 "), at(86_400 - 5400));
        assert_eq!(
            parse_time("1970-01-02T00:00:00.5-09:00").unwrap(),
            at(86_400 + 9 * 3600).unwrap() + Duration::from_millis(500)
        );
        for text in [
            "",
            "Z",
            "tomorrow",
            "1970-01-02",
            "1970-01-02T00:00:00",
            "1970-01-02T00:00:00+1:30",
            "1970-13-02T00:00:00Z",
            "日本日本日本",
            "1970-01-02T00:00:00+24:00",
        ] {
            let told = parse_time(text).unwrap_err();
            assert!(told.contains("2026-12-24T18:00:00Z"), "{text}: {told}");
        }
    }
}
