//! Is the database at fault, or the message? What the stores on sqlx have in common: finding the driver's error. anyhow and eyre hide the
//! type of their top error when they become a `Box<dyn Error>`, so that an error of sqlx can be there without being one to downcast to.

/// The functions `database_error`, the server's error in a link of a chain, and `is_gone_behind`, whether a link is an error of sqlx that
/// says that the database is gone but whose type is hidden.
#[macro_export]
macro_rules! hidden_errors {
    () => {
        /// The server's error, if this is one or has one. Where sqlx's own type is hidden, it is the source of what hides it.
        fn database_error<'a>(
            link: &'a (dyn std::error::Error + 'static),
        ) -> Option<&'a (dyn sqlx::error::DatabaseError + 'static)> {
            if let Some(error) = link.downcast_ref::<sqlx::Error>() {
                return error.as_database_error();
            }
            link.downcast_ref::<Box<dyn sqlx::error::DatabaseError>>().map(|error| &**error)
        }

        /// What hides an error of sqlx has its text; the same text is made here, by the same code.
        fn is_gone_behind(link: &(dyn std::error::Error + 'static)) -> bool {
            use sqlx::Error::{BeginFailed, Io, PoolClosed, PoolTimedOut, Protocol, Tls, WorkerCrashed};
            let text = link.to_string();
            let is = |error: sqlx::Error| error.to_string() == text;
            match link.source() {
                Some(source) if source.is::<std::io::Error>() => is(Io(std::io::Error::other(source.to_string()))),
                Some(source) => is(Tls(source.to_string().into())),
                None => {
                    [PoolTimedOut, PoolClosed, WorkerCrashed, BeginFailed].into_iter().any(is)
                        || text.starts_with(&Protocol(String::new()).to_string())
                }
            }
        }
    };
}
