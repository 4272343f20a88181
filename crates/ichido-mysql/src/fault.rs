//! Is the database at fault, or the message? By error number, never by text.

use std::error::Error as StdError;

use sqlx::{error::DatabaseError, mysql::MySqlDatabaseError};

/// Does this error say that the database is gone, in conflict or out of resources?
pub(crate) fn is_fault(cause: &(dyn StdError + 'static)) -> bool {
    use sqlx::Error::{BeginFailed, Io, PoolClosed, PoolTimedOut, Protocol, Tls, WorkerCrashed};
    if let Some(error) = database_error(cause) {
        return number_of(error).is_some_and(is_fault_number);
    }
    match cause.downcast_ref::<sqlx::Error>() {
        Some(Io(_) | Tls(_) | Protocol(_) | PoolTimedOut | PoolClosed | WorkerCrashed | BeginFailed) => true,
        Some(_) => false,
        None => is_gone_behind(cause),
    }
}

ichido_sql::hidden_errors!();

/// The server keeps no more prepared statements.
pub(crate) const MOST_PREPARED: u16 = 1461;

/// Does this error say that the connection is no more?
pub(crate) fn is_gone(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) => true,
        error => number(error).is_some_and(|number| matches!(number, 1053 | 1927 | 2006 | 2013 | 4031)),
    }
}

/// Deadlock 1213, lock wait 1205 and 3572, changed since read 1020; out of disk, memory, table space, connections or prepared statements
/// (1461); the server shuts down, is read-only or has ended our session.
fn is_fault_number(number: u16) -> bool {
    matches!(
        number,
        1213 | 1205
            | 3572
            | 1020
            | 1021
            | 1037
            | 1038
            | 1040
            | 1041
            | 1053
            | 1114
            | 1129
            | 1180
            | 1181
            | 1203
            | 1226
            | 1290
            | MOST_PREPARED
            | 1792
            | 1836
            | 1927
            | 2006
            | 2013
            | 3
            | 28
            | 4031
    )
}

/// In a statement of ichido's own: has somebody ended it (1317), or a limit of time on MariaDB (1969) or MySQL (3024)? An action's statement
/// fails by it. And a new connection was refused (1045, 1698): a password that has just changed may be on its way to us.
pub(crate) fn is_own_fault(cause: &(dyn StdError + 'static)) -> bool {
    database_error(cause).and_then(number_of).is_some_and(|number| matches!(number, 1045 | 1317 | 1698 | 1969 | 3024))
}

/// The server's number of an error, if it sent one.
pub(crate) fn number(error: &sqlx::Error) -> Option<u16> {
    error.as_database_error().and_then(number_of)
}

fn number_of(error: &dyn DatabaseError) -> Option<u16> {
    Some(error.try_downcast_ref::<MySqlDatabaseError>()?.number())
}

/// What the server says if a value does not fit its place: the same values never will. Class 22, and two numbers that have none of
/// it on every server: 1366 incorrect value, 1265 data truncated.
pub(crate) fn unfit(error: &sqlx::Error) -> Option<String> {
    let is_unfit = matches!(number(error)?, 1366 | 1265);
    let error = error.as_database_error()?;
    let is_unfit = is_unfit || error.code().is_some_and(|code| code.starts_with("22"));
    is_unfit.then(|| format!("MySQL: {}", error.message()))
}

/// What sqlx says when a server asks for the password and nothing hides it on its way: which cannot be read by who has not written sqlx.
pub(crate) fn explained(error: sqlx::Error) -> sqlx::Error {
    match error {
        sqlx::Error::Configuration(why) if why.to_string().starts_with("RSA auth") => {
            sqlx::Error::Configuration(UNENCRYPTED.into())
        }
        error => error,
    }
}

/// MySQL's `caching_sha2_password` asks for it whenever it has forgotten who we are; `sha256_password` always.
const UNENCRYPTED: &str = "the server wants the password (caching_sha2_password), and the connection is not encrypted: use TLS (in the URL \
    ?ssl-mode=VERIFY_IDENTITY, with &ssl-ca=FILE for an authority of your own), or let the user log in with mysql_native_password";

/// Is a unique key taken?
pub(crate) fn is_unique(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(DatabaseError::is_unique_violation)
}

#[cfg(test)]
mod tests {
    use super::is_fault_number;

    #[test]
    fn conflicts_and_outages_are_faults_and_violations_are_not() {
        for number in [1213, 1205, 1020, 1040, 1021, 1114, 1461, 2006, 2013, 1927] {
            assert!(is_fault_number(number), "{number}");
        }
        for number in [1062, 1048, 1064, 1146, 1305, 1317, 1364, 1406, 1452, 1969, 3024] {
            assert!(!is_fault_number(number), "{number}");
        }
    }
}
