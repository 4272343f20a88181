//! Is the database at fault, or the message? By SQLSTATE, never by text.

use std::error::Error as StdError;

/// Does this error say that the database is gone, in conflict or out of resources?
pub(crate) fn is_fault(cause: &(dyn StdError + 'static)) -> bool {
    use sqlx::Error::{BeginFailed, Io, PoolClosed, PoolTimedOut, Protocol, Tls, WorkerCrashed};
    if let Some(error) = database_error(cause) {
        return error.code().is_some_and(|code| is_fault_code(&code));
    }
    match cause.downcast_ref::<sqlx::Error>() {
        Some(Io(_) | Tls(_) | Protocol(_) | PoolTimedOut | PoolClosed | WorkerCrashed | BeginFailed) => true,
        Some(_) => false,
        None => is_gone_behind(cause),
    }
}

ichido_sql::hidden_errors!();

/// 08 connection, 40 conflict with other transactions, 53 out of resources, 57P shutdown, 58 system error; a lock or an
/// idle session that timed out.
fn is_fault_code(code: &str) -> bool {
    ["08", "40", "53", "57P", "58"].iter().any(|class| code.starts_with(class)) || matches!(code, "55P03" | "25P03")
}

/// In a statement of ichido's own: it was cancelled by somebody or by a limit of the role, or the server does not write for now. In a business
/// transaction both are the action's.
pub(crate) fn is_own_fault(cause: &(dyn StdError + 'static)) -> bool {
    let code = database_error(cause).and_then(sqlx::error::DatabaseError::code);
    matches!(code.as_deref(), Some("57014" | "25006"))
}

/// The SQLSTATE of an error, if the server sent one.
pub(crate) fn code(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(Into::into)
}

/// What the server says if a value does not fit its place (class 22): the same values never will.
pub(crate) fn unfit(error: &sqlx::Error) -> Option<String> {
    let error = error.as_database_error()?;
    error.code()?.starts_with("22").then(|| format!("PostgreSQL: {}", error.message()))
}

/// Is a unique key taken?
pub(crate) fn is_unique(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

#[cfg(test)]
mod tests {
    use std::io;

    use ichido::ActionError;

    use super::is_fault_code;
    use crate::Postgres;

    #[test]
    fn a_lost_connection_is_a_fault_behind_anyhow_and_eyre() {
        let lost = || sqlx::Error::Io(io::ErrorKind::ConnectionReset.into());
        for error in [
            ActionError::from(lost()),
            anyhow::Error::from(lost()).into(),
            anyhow::Error::from(lost()).context("paying").into(),
            eyre::Report::from(lost()).into(),
            eyre::Report::from(lost()).wrap_err("paying").into(),
            anyhow::Error::from(sqlx::Error::PoolTimedOut).into(),
            anyhow::Error::from(sqlx::Error::Protocol("unexpected".into())).into(),
        ] {
            assert!(error.is_fault::<Postgres>(), "{error:?}");
        }
    }

    #[test]
    fn an_error_of_another_server_is_no_fault() {
        let other = || io::Error::from(io::ErrorKind::ConnectionReset);
        for error in [
            ActionError::from(other()),
            anyhow::Error::from(other()).into(),
            anyhow::Error::from(other()).context("paying").into(),
            eyre::Report::from(other()).wrap_err("paying").into(),
            anyhow::Error::from(sqlx::Error::RowNotFound).into(),
        ] {
            assert!(!error.is_fault::<Postgres>(), "{error:?}");
        }
    }

    #[test]
    fn conflicts_and_outages_are_faults_and_violations_are_not() {
        for code in ["40001", "40P01", "08006", "57P01", "57P03", "53100", "53300", "55P03", "25P03"] {
            assert!(is_fault_code(code), "{code}");
        }
        for code in ["23505", "22P02", "42P01", "25P02", "25006", "P0001", "57014"] {
            assert!(!is_fault_code(code), "{code}");
        }
    }
}
