//! A database fault is one, whatever the user's functions have wrapped it in. A macro, because the wrappers are dependencies of the tests of
//! a store and not of this crate.

/// Tests of a store with anyhow and eyre: a statement that the database fails, wrapped by either, with a context and without, spends no
/// attempt; and a function that returns one of their errors sends with `?`. Takes a [`Fixture`](crate::fixture::Fixture) and
/// statements of which the last one is failed by the database, not by the message.
#[macro_export]
macro_rules! wrapped_errors {
    ($fixture:ty, $faulty:expr) => {
        mod wrapped_errors {
            use std::sync::atomic::{AtomicUsize, Ordering};

            use ichido::{
                Client, Context, Error, Outcome, Pool, Process, Result,
                store::{Database, Transactions},
                testing::drain,
            };
            use $crate::fixture::{Connection, Fixture, effect, effects, send};

            use super::*;

            type Store = <$fixture as Fixture>::Store;

            /// What the driver says, with nothing of ichido around it.
            async fn fault(connection: &mut Connection<$fixture>) -> Result<(), sqlx::Error> {
                for statement in $faulty {
                    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut *connection).await?;
                }
                Ok(())
            }

            async fn pay(cx: &mut Context<Store>, way: &str) -> Result<()> {
                let failed = fault(cx.tx().await?).await;
                match way {
                    "anyhow" => failed.map_err(anyhow::Error::from)?,
                    "anyhow with context" => {
                        anyhow::Context::context(failed, "paying").map_err(|error| error.context("ordering"))?
                    }
                    "eyre" => failed.map_err(eyre::Report::from)?,
                    "eyre with context" => eyre::WrapErr::wrap_err(failed, "paying")?,
                    "ours in anyhow" => failed.map_err(Error::from).map_err(anyhow::Error::from)?,
                    _ => failed?,
                }
                Ok(())
            }

            #[test]
            fn a_fault_behind_anyhow_or_eyre_spends_no_attempt() {
                $crate::run(async {
                    let fixture = <$fixture>::fresh().await;
                    let ways = ["bare", "anyhow", "anyhow with context", "eyre", "eyre with context", "ours in anyhow"];
                    for way in ways {
                        send(&fixture, "mail", &[&format!("{way:?}")]).await;
                        static RUNS: AtomicUsize = AtomicUsize::new(0);
                        RUNS.store(0, Ordering::SeqCst);
                        async fn order(cx: &mut Context<Store>, way: String) -> Result<Outcome> {
                            assert_eq!(cx.attempt(), 1, "{way}: an attempt was spent");
                            if RUNS.fetch_add(1, Ordering::SeqCst) == 0 {
                                pay(cx, &way).await?;
                            }
                            let message = cx.message()?.clone();
                            effect::<$fixture>(cx.tx().await?, &message).await?;
                            Ok(Outcome::Done)
                        }
                        let process = Process::new(fixture.store()).action_fn(Pool::new("Order").from("mail"), order);
                        let drained = drain(process).await.unwrap();
                        drained.assert_all_done();
                        assert!(
                            drained.errors.is_empty() && RUNS.load(Ordering::SeqCst) == 2,
                            "{way}: {:?}",
                            drained.errors
                        );
                    }
                    assert_eq!(effects(&fixture).await, ways.len() as i64);
                });
            }

            async fn with_anyhow(store: Store) -> anyhow::Result<()> {
                let mut tx = store.begin().await?;
                Client::new(store.clone()).queue("mail").send(Store::connection(&mut tx), &1).await?;
                Ok(store.commit(tx).await?)
            }

            async fn with_eyre(store: Store) -> eyre::Result<()> {
                let mut tx = store.begin().await?;
                Client::new(store.clone()).queue("mail").send(Store::connection(&mut tx), &2).await?;
                Ok(store.commit(tx).await?)
            }

            async fn with_a_box(store: Store) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
                let mut tx = store.begin().await?;
                Client::new(store.clone()).queue("mail").send(Store::connection(&mut tx), &3).await?;
                Ok(store.commit(tx).await?)
            }

            #[test]
            fn a_function_with_errors_of_its_own_sends() {
                $crate::run(async {
                    let fixture = <$fixture>::fresh().await;
                    with_anyhow(fixture.store()).await.unwrap();
                    with_eyre(fixture.store()).await.unwrap();
                    with_a_box(fixture.store()).await.unwrap();
                    assert_eq!(fixture.number("select count(*) from ichido_message").await, 3);
                    let large = "x".repeat(2000);
                    let mut tx = fixture.store().begin().await.unwrap();
                    let client = Client::new(fixture.store());
                    let refused = client.queue("mail").send(Store::connection(&mut tx), &large).await.unwrap_err();
                    let refused = anyhow::Error::from(refused).context("sending");
                    assert!(matches!(refused.downcast_ref(), Some(Error::Refused(_))), "{refused:#}");
                });
            }
        }
    };
}
