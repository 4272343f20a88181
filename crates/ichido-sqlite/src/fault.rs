//! Is the database at fault, or the message? By result code, never by text.

use std::error::Error as StdError;

use sqlx::error::DatabaseError;

/// Does this error say that the database is busy, full or gone?
pub(crate) fn is_fault(cause: &(dyn StdError + 'static)) -> bool {
    use sqlx::Error::{BeginFailed, Io, PoolClosed, PoolTimedOut, WorkerCrashed};
    if let Some(error) = database_error(cause) {
        return code_of(error).is_some_and(is_fault_code);
    }
    match cause.downcast_ref::<sqlx::Error>() {
        Some(Io(_) | PoolTimedOut | PoolClosed | WorkerCrashed | BeginFailed) => true,
        Some(_) => false,
        None => is_gone_behind(cause),
    }
}

ichido_sql::hidden_errors!();

/// BUSY, LOCKED, NOMEM, IOERR, FULL, CANTOPEN, PROTOCOL: the low byte of the extended result code.
fn is_fault_code(code: u32) -> bool {
    matches!(code & 0xff, 5 | 6 | 7 | 10 | 13 | 14 | 15)
}

/// The extended result code.
pub(crate) fn code(error: &sqlx::Error) -> Option<u32> {
    error.as_database_error().and_then(code_of)
}

fn code_of(error: &dyn DatabaseError) -> Option<u32> {
    error.code()?.parse().ok()
}

/// What SQLite says if a value does not fit its place: the same values never will. Too big, a mismatch, or the wrong type for a
/// strict table.
pub(crate) fn unfit(error: &sqlx::Error) -> Option<String> {
    let is_unfit = matches!(code(error)?, 18 | 20 | 3091);
    is_unfit.then_some(format!("SQLite: {}", error.as_database_error()?.message()))
}

/// Is a unique key taken?
pub(crate) fn is_unique(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(DatabaseError::is_unique_violation)
}

#[cfg(test)]
mod tests {
    use super::is_fault_code;

    #[test]
    fn busy_full_and_io_errors_are_faults_and_constraints_are_not() {
        for code in [5, 6, 10, 13, 14, 261, 517, 266, 778] {
            assert!(is_fault_code(code), "{code}");
        }
        for code in [1, 19, 20, 531, 1555, 2067] {
            assert!(!is_fault_code(code), "{code}");
        }
    }
}
