//! What an error says about itself, and what is found of it inside others: behind anyhow, eyre and types of the user's own, with a
//! context around it and without.

use std::{error::Error as StdError, fmt, time::Duration};

use anyhow::Context as _;
use eyre::WrapErr as _;

use super::{ActionError, Cause, Error, Permanent, RetryAfter};

/// The ways from an error of a library to the error of an action.
fn ways<E: StdError + Send + Sync + 'static>(make: impl Fn() -> E) -> Vec<(&'static str, ActionError)> {
    let anyhow = || Err::<(), _>(anyhow::Error::from(make()));
    let eyre = || Err::<(), _>(eyre::Report::from(make()));
    vec![
        ("bare", make().into()),
        ("a box", Cause::from(make()).into()),
        ("anyhow", anyhow().unwrap_err().into()),
        ("anyhow with context", anyhow().context("paying").unwrap_err().into()),
        ("anyhow with two", anyhow().context("paying").context("ordering").unwrap_err().into()),
        ("eyre", eyre().unwrap_err().into()),
        ("eyre with context", eyre().wrap_err("paying").unwrap_err().into()),
        ("eyre in anyhow", anyhow::Error::from_boxed(eyre().unwrap_err().into()).into()),
    ]
}

#[test]
fn permanent_is_found_behind_anyhow_and_eyre() {
    for (way, error) in ways(|| Permanent("no card".into())) {
        assert!(error.is_hopeless() && error.retry_after().is_none(), "{way}: {error:?}");
        assert!(format!("{error:#}").ends_with("no card"), "{way}: {error:#}");
    }
    for (way, error) in ways(|| std::io::Error::other("no card")) {
        assert!(!error.is_hopeless(), "{way}");
    }
}

#[test]
fn retry_after_is_found_behind_anyhow_and_eyre() {
    for (way, error) in ways(|| RetryAfter { after: Duration::from_secs(7), cause: "busy".into() }) {
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)), "{way}");
        assert!(!error.is_hopeless(), "{way}");
    }
}

#[test]
fn our_own_error_is_found_again_behind_anyhow_and_eyre() {
    for (way, error) in ways(|| Error::LostClaim) {
        assert!(matches!(Error::from(error), Error::LostClaim), "{way}");
    }
    for (way, error) in ways(|| Error::Setup("no table".into())) {
        assert!(matches!(&*error, Error::Setup(text) if text.ends_with("no table")), "{way}: {error:?}");
    }
    for (way, error) in ways(|| Error::Refused("too large".into())) {
        assert!(error.is_hopeless() && format!("{error:#}").ends_with("too large"), "{way}: {error:?}");
    }
    for (way, error) in ways(|| Error::Unreachable { address: "db:5432".into(), source: "refused".into() }) {
        assert!(matches!(&*error, Error::Unreachable { address, .. } if address == "db:5432"), "{way}: {error:?}");
        let text = format!("{error:#}");
        assert!(
            text.starts_with("the database at db:5432 does not answer") && text.ends_with("refused"),
            "{way}: {text}"
        );
    }
    for (way, error) in ways(|| Error::failed(Permanent("no card".into()))) {
        assert!(error.is_hopeless(), "{way}: {error:?}");
    }
}

#[test]
fn what_is_said_around_an_error_of_ours_stays() {
    let refused = || Err::<(), _>(Error::Refused("too large".into()));
    let error = ActionError::from(anyhow::Context::context(refused(), "sending the report").unwrap_err());
    assert_eq!(error.to_string(), "sending the report: too large");
    let failed = Err::<(), _>(anyhow::anyhow!("no paper")).context("printing").unwrap_err();
    let error = ActionError::from(failed);
    assert_eq!((error.to_string(), format!("{error:#}")), ("printing".into(), "printing: no paper".into()));
}

#[derive(Debug)]
struct Printing(Cause);

impl fmt::Display for Printing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot print")
    }
}

impl StdError for Printing {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.0.as_ref())
    }
}

#[test]
fn no_text_is_written_twice() {
    let unreachable = || Error::Unreachable { address: "db:5432".into(), source: "refused".into() };
    let whole = "the database at db:5432 does not answer: refused";
    assert_eq!(unreachable().to_string(), "the database at db:5432 does not answer");
    assert_eq!(format!("{:#}", unreachable()), whole);
    assert_eq!(format!("{:#}", anyhow::Error::from(unreachable())), whole);
    let failed = || Error::failed(Printing(Permanent("no paper".into()).into()));
    assert_eq!(
        (failed().to_string(), failed().in_full().to_string()),
        ("cannot print".into(), "cannot print: no paper".into())
    );
    assert_eq!(format!("{:#}", anyhow::Error::from(failed())), "cannot print: no paper");
    assert_eq!(
        format!("{:#}", anyhow::Error::from(RetryAfter::new(Duration::ZERO, Printing("x".into())))),
        "cannot print: x"
    );
}

#[test]
fn an_error_has_its_source() {
    let source = |error: Error| error.source().map(ToString::to_string);
    assert_eq!(source(Error::failed(Printing("no paper".into()))).as_deref(), Some("no paper"));
    assert_eq!(source(Error::Unreachable { address: "x".into(), source: "y".into() }).as_deref(), Some("y"));
    assert_eq!(source(Error::LostClaim), None);
}

#[test]
fn a_display_that_panics_leaves_nobody_listening() {
    #[derive(Debug)]
    struct Panics;
    impl fmt::Display for Panics {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("no text")
        }
    }
    impl StdError for Panics {}
    assert!(std::panic::catch_unwind(|| ActionError::from(Panics)).is_err());
    let mut asked = false;
    super::said::say(|| {
        asked = true;
        None
    });
    assert!(!asked);
}

#[test]
fn a_server_that_refuses_a_login_does_answer() {
    let denied = "error returned from database: 1045 (28000): Access denied";
    let refused = Error::Unreachable { address: "db:3306".into(), source: denied.into() };
    assert_eq!(format!("{refused:#}"), format!("the database at db:3306 refuses the connection: {denied}"));
}
