//! How many slots a load needs: Erlang's formula for messages that arrive at random, take a time that differs a lot, and are
//! served by the next free slot. Real loads are kinder or harsher; it says in which order of magnitude to look.

use std::time::Duration;

/// Nobody has more slots for one queue.
const MOST_SLOTS: u32 = 1000;

/// The smallest number of slots with which no more than five of a hundred messages wait longer than this; none if no number of
/// slots in reach does. `load` is the number of slots that are busy on average.
#[must_use]
pub fn slots_for(load: f64, service: Duration, target: Duration) -> Option<u32> {
    let service = service.as_secs_f64().max(1e-6);
    let fits = |slots: &u32| waits_longer(load, f64::from(*slots), target.as_secs_f64() / service) <= 0.05;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a load is a small positive number")]
    let least = load.max(0.0) as u32 + 1;
    (least..=MOST_SLOTS).find(fits)
}

/// The part of the messages that wait longer than so many service times; there are more slots than the load keeps busy.
fn waits_longer(load: f64, slots: f64, services: f64) -> f64 {
    let mut blocked = 1.0;
    let mut slot = 1.0;
    while slot <= slots {
        blocked = load * blocked / (slot + load * blocked);
        slot += 1.0;
    }
    let waits = blocked / (1.0 - load / slots * (1.0 - blocked));
    waits * (-(slots - load) * services).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_gives_the_values_of_the_textbook() {
        let close = |found: f64, known: f64| assert!((found - known).abs() < 5e-4, "{found}, known {known}");
        close(waits_longer(0.5, 1.0, 0.0), 0.5); // one slot: as often as it is busy
        close(waits_longer(2.0, 3.0, 0.0), 0.4444);
        close(waits_longer(4.0, 6.0, 0.0), 0.2848);
        close(waits_longer(2.0, 3.0, 1.0), 0.4444 * (-1.0_f64).exp());
    }

    #[test]
    fn the_number_of_slots_grows_with_the_load_and_with_impatience() {
        let (second, soon) = (Duration::from_secs(1), Duration::from_millis(10));
        assert_eq!(slots_for(0.0, second, second), Some(1));
        assert_eq!(slots_for(0.5, second, Duration::from_secs(10)), Some(1));
        assert_eq!(slots_for(4.0, second, Duration::from_mins(1)), Some(5), "more than are busy on average");
        assert_eq!(slots_for(4.0, second, soon), Some(9));
        assert_eq!(slots_for(5000.0, second, soon), None);
    }
}
