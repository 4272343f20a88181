//! The macros that make a test of every case of a suite. The cases they name are found by `build.rs`.

include!(concat!(env!("OUT_DIR"), "/suites.rs"));

/// Tests of a store: every case of [`store`](crate::cases::store), and those of [`reader`](crate::cases::reader) for its reader. Takes
/// a [`Fixture`](crate::fixture::Fixture).
#[macro_export]
macro_rules! conformance {
    ($fixture:ty) => {
        $crate::__suite!(store, $fixture);
        $crate::reading!($fixture);
        mod over_lanes {
            use super::*;
            $crate::reading!($crate::cases::store::lanes::Laned<$fixture>);
        }
    };
}

/// Tests of a store of a database with row locks, beside [`conformance!`](crate::conformance). Takes a
/// [`Fixture`](crate::fixture::Fixture).
#[macro_export]
macro_rules! locking {
    ($fixture:ty) => {
        $crate::__suite!(locks, $fixture);
        $crate::__suite!(races, $fixture);
    };
}

/// Tests of a store whose server falls silent, beside [`conformance!`](crate::conformance). Takes a
/// [`SilenceFixture`](crate::fixture::SilenceFixture).
#[macro_export]
macro_rules! silencing {
    ($fixture:ty) => {
        $crate::__suite!(silence, $fixture);
    };
}

/// Tests of a store in which whole processes die, beside [`conformance!`](crate::conformance). Takes a
/// [`Fixture`](crate::fixture::Fixture).
#[macro_export]
macro_rules! crashing {
    ($fixture:ty) => {
        mod crash {
            use super::*;
            $crate::__suite!(crash, $fixture);

            /// Not a test: what the processes of these tests run.
            #[test]
            #[ignore = "run by other tests, in processes of their own"]
            fn child() {
                $crate::run($crate::child::child::<$fixture>());
            }
        }
    };
}

/// How large what a message passes through is, in our own stores: a store of somebody else's may be as large as it likes. Takes a
/// [`Fixture`](crate::fixture::Fixture).
#[doc(hidden)]
#[macro_export]
macro_rules! sizing {
    ($fixture:ty) => {
        $crate::__suite!(sizes, $fixture);
    };
}

/// Tests of a reader: every case of [`reader`](crate::cases::reader). Takes a [`ReaderFixture`](crate::fixture::ReaderFixture).
///
/// A reader of your own needs a store for its process, a place where its messages come from, and these lines in a file below
/// `tests/`:
///
#[doc = concat!("```no_run\n", include_str!("../tests/reader.rs"), "\n```")]
#[macro_export]
macro_rules! reading {
    ($fixture:ty) => {
        $crate::__suite!(reader, $fixture);
    };
}

/// Tests of a broker together with a store: every case of [`broker`](crate::cases::broker). Takes a store's
/// [`Fixture`](crate::fixture::Fixture) and a [`BrokerFixture`](crate::fixture::BrokerFixture).
#[macro_export]
macro_rules! brokering {
    ($fixture:ty, $broker:ty) => {
        $crate::__suite!(broker, $fixture, $broker);
    };
}

/// Tests of a broker with exchanges and limits, beside [`brokering!`](crate::brokering): every case of
/// [`exchange`](crate::cases::exchange). Takes a store's [`Fixture`](crate::fixture::Fixture) and an
/// [`ExchangeFixture`](crate::fixture::ExchangeFixture).
#[macro_export]
macro_rules! exchanging {
    ($fixture:ty, $broker:ty) => {
        $crate::__suite!(exchange, $fixture, $broker);
    };
}

/// Runs a case on a runtime of its own.
#[doc(hidden)]
pub fn run(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(case);
}
