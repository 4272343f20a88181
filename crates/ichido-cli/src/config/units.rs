//! Durations and sizes like "256KiB" as the configuration has them, read and spelled. Durations are read as operators write them everywhere
//! (`ichido::by_hand`).

use std::time::Duration;

pub use ichido::by_hand::{parse_duration, parse_time};

use super::spelling::quoted;

const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads a size in bytes: a whole number, or one with `B`, `KiB`, `MiB` or `GiB`.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text.trim(), |c| c.is_ascii_digit());
    let unit = Some(unit.trim()).filter(|unit| !unit.is_empty()).unwrap_or("B");
    let factor = SIZES.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let size = number.parse::<u64>().ok().zip(factor).and_then(|(n, f)| n.checked_mul(f));
    size.ok_or_else(|| {
        let found = quoted(text);
        format!("{found} is not a valid size; write a whole number with B, KiB, MiB or GiB, like \"256KiB\"")
    })
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// The duration as it would be written, such as `15m`.
pub(super) fn spelled(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// The size as it would be written, in the largest unit that fits.
pub(super) fn spelled_size(size: u64) -> String {
    let fits = |(_, factor): &&(&str, u64)| size >= *factor && size.is_multiple_of(*factor);
    SIZES.iter().find(fits).map_or_else(|| size.to_string(), |(unit, f)| format!("{}{unit}", size / f))
}
