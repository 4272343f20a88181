//! `status code`: the outermost handler. It turns whatever the rest ended with into the exit code of the process.
//!
//! Scope: process. In: nothing. Out: the status becomes the exit code by the table of [`exit_code`]; an outcome without a status
//! is 200. On error: nothing, the error passes. It needs nothing before it, and `global error` needs it. No options.

use crate::{
    Context, Handler, Next, Outcome, Store,
    handlers::{About, Scope},
};

/// Turns the outcome of the whole queue into an exit code.
#[derive(Debug, Clone, Copy, Default)]
pub struct StatusCode;

impl<S: Store> Handler<S> for StatusCode {
    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        let status = match next.run(cx).await? {
            Outcome::Ended(status) => status,
            Outcome::Abort(code) => i32::from(code),
            _ => 200,
        };
        Ok(Outcome::Ended(exit_code(status)))
    }

    fn about(&self, _: Scope) -> About {
        About::new("status code", "", "turn the status into the exit code", "").only(Scope::Process).once()
    }
}

/// The exit code for a status.
#[must_use]
pub fn exit_code(status: i32) -> i32 {
    match status {
        ..0 => 1,
        0..=199 => status,
        200..=399 => 0,
        400 => 10,
        401 => 11,
        403 => 12,
        404 => 13,
        409 => 14,
        402 | 405..=408 | 410..=499 => 15,
        500.. => 20,
    }
}

#[cfg(test)]
mod tests {
    use super::exit_code;

    #[test]
    fn every_row_of_the_table_of_exit_codes() {
        let table = [
            (-1, 1),
            (i32::MIN, 1),
            (0, 0),
            (1, 1),
            (127, 127),
            (180, 180),
            (199, 199),
            (200, 0),
            (207, 0),
            (399, 0),
            (400, 10),
            (401, 11),
            (402, 15),
            (403, 12),
            (404, 13),
            (405, 15),
            (408, 15),
            (409, 14),
            (410, 15),
            (499, 15),
            (500, 20),
            (503, 20),
            (i32::MAX, 20),
        ];
        for (status, code) in table {
            assert_eq!(exit_code(status), code, "status {status}");
        }
    }
}
