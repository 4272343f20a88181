//! `Retry-After` of an answer: seconds, or a date.

use std::time::{Duration, SystemTime};

use hyper::header::HeaderValue;

/// Nobody waits longer than this because a server says so.
const LONGEST: Duration = Duration::from_hours(24);

/// How long to wait; none if it says nothing that can be read, or nothing to wait for.
pub(super) fn wait(value: &HeaderValue) -> Option<Duration> {
    after(value.to_str().ok()?.trim(), SystemTime::now())
}

fn after(text: &str, now: SystemTime) -> Option<Duration> {
    let after = if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        text.parse().map_or(LONGEST, Duration::from_secs)
    } else {
        httpdate::parse_http_date(text).ok()?.duration_since(now).ok()?
    };
    Some(after.min(LONGEST)).filter(|after| !after.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_read_and_nobody_waits_for_ever() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let after = |text| after(text, now).map(|after| after.as_secs());
        assert_eq!(after("120"), Some(120));
        assert_eq!(after("Sun, 06 Nov 1994 08:50:00 GMT"), Some(23));
        assert_eq!(after("Sunday, 06-Nov-94 08:50:00 GMT"), Some(23));
        assert_eq!(after("99999999999999999999999"), Some(86_400));
        assert_eq!(after("Sat, 06 Nov 2094 08:50:00 GMT"), Some(86_400));
        for text in ["0", "", "-1", "1.5", "soon", "Sun, 06 Nov 1994 08:49:37 GMT", "Tue, 06 Nov 1990 08:49:37 GMT"] {
            assert_eq!(after(text), None, "{text}");
        }
    }
}
