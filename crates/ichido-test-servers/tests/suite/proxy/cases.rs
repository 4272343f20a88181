//! The cases that hold for every protocol. `cases!` makes a test of each of
//! them for a database.

use ichido_test_servers::proxy::{Cut, Silence, Whom};
use ichido_testkit::eventually;
use sqlx::Connection as _;
use tokio::task::JoinSet;

use super::bench::{Bench, Database, Raw, insert, insert_prepared, times};

/// Takes the database, its server and how a proxy in front of it is started.
macro_rules! cases {
    ($database:ty, $server:ident, $proxy:path) => {
        #[tokio::test]
        async fn a_killed_server_is_an_error_and_a_restarted_one_is_reached() {
            let server = $server::start(&[]);
            let proxy = $proxy(server.address());
            let connect = async |url: &str| <$database as Database>::Client::connect(url).await;
            let url = proxy.url(&server.fresh_database());
            for end in [$server::kill, $server::stop] {
                let mut client = connect(&url).await.expect("a client");
                end(&server);
                client.ping().await.expect_err("no server");
                connect(&url).await.expect_err("no server");
                server.start_again();
                connect(&url).await.expect("a server again");
            }
        }

        $crate::proxy::cases::cases!($database: [
            frames_may_come_in_any_pieces,
            cut_before_commit_nothing_is_committed,
            cut_after_commit_everything_is_committed_when_the_client_sees_the_error,
            a_prepared_commit_is_cut_when_it_runs_not_when_it_is_parsed,
            every_third_commit_is_cut_on_one_connection_too,
            with_many_clients_as_many_errors_as_cuts,
            severed_clients_see_an_error_and_may_come_back,
            what_is_held_arrives_when_it_is_resumed,
            a_held_client_can_be_severed_and_a_new_one_is_held,
            new_clients_are_refused_and_old_ones_stay,
            swallowed_answers_leave_the_effect_and_the_client_without_a_word,
            in_full_silence_the_session_outlives_its_client,
            everyone_falls_silent_and_new_clients_work,
            a_dropped_proxy_has_closed_its_connections,
        ]);
    };
    ($database:ty: [$($case:ident),* $(,)?]) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::proxy::cases::$case::<$database>().await;
            }
        )*
    };
}
pub(crate) use cases;

pub(crate) async fn cut_before_commit_nothing_is_committed<D: Database>() {
    let mut bench = Bench::<D>::new().await;
    bench.proxy.cut_commits(Cut::BeforeCommit, 1, times());
    for _ in 0..times() {
        insert::<D>(&bench.url).await.expect_err("cut");
        assert_eq!(bench.effects().await, 0);
    }
    bench.proxy.all_cut().await;
    assert_eq!(bench.proxy.cuts(), times());
    insert::<D>(&bench.url).await.expect("no more cuts");
    assert_eq!(bench.effects().await, 1);
}

pub(crate) async fn cut_after_commit_everything_is_committed_when_the_client_sees_the_error<D: Database>() {
    let mut bench = Bench::<D>::new().await;
    bench.proxy.cut_commits(Cut::AfterCommit, 1, times());
    for round in 1..=times() {
        insert::<D>(&bench.url).await.expect_err("cut");
        assert_eq!(bench.effects().await, i64::from(round));
    }
    bench.proxy.all_cut().await;
    assert_eq!(bench.proxy.cuts(), times());
    insert::<D>(&bench.url).await.expect("no more cuts");
}

pub(crate) async fn a_prepared_commit_is_cut_when_it_runs_not_when_it_is_parsed<D: Database>() {
    let mut bench = Bench::<D>::new().await;
    bench.proxy.cut_commits(Cut::BeforeCommit, 1, times());
    for _ in 0..times() {
        insert_prepared::<D>(&bench.url).await.expect_err("cut");
        assert_eq!(bench.effects().await, 0);
    }
    bench.proxy.cut_commits(Cut::AfterCommit, 1, times());
    for round in 1..=times() {
        insert_prepared::<D>(&bench.url).await.expect_err("cut");
        assert_eq!(bench.effects().await, i64::from(round));
    }
    insert_prepared::<D>(&bench.url).await.expect("no more cuts");
}

pub(crate) async fn every_third_commit_is_cut_on_one_connection_too<D: Database>() {
    let mut bench = Bench::<D>::new().await;
    bench.proxy.cut_commits(Cut::BeforeCommit, 3, 2);
    let mut client = bench.client().await;
    let mut errors = Vec::new();
    for round in 1..=10 {
        if D::insert(&mut client).await.is_err() {
            errors.push(round);
            client = bench.client().await;
        }
    }
    assert_eq!(errors, [3, 6]);
    assert_eq!(bench.effects().await, 8);
}

pub(crate) async fn with_many_clients_as_many_errors_as_cuts<D: Database>() {
    for (cut, effects) in [(Cut::BeforeCommit, 400 - times()), (Cut::AfterCommit, 400)] {
        let mut bench = Bench::<D>::new().await;
        bench.proxy.cut_commits(cut, 3, times());
        let mut clients = JoinSet::new();
        for _ in 0..8 {
            let url = bench.url.clone();
            clients.spawn(async move {
                let mut errors = 0;
                for _ in 0..50 {
                    errors += u32::from(insert::<D>(&url).await.is_err());
                }
                errors
            });
        }
        let errors: u32 = clients.join_all().await.into_iter().sum();
        bench.proxy.all_cut().await;
        assert_eq!(errors, times());
        assert_eq!(bench.effects().await, i64::from(effects));
    }
}

pub(crate) async fn frames_may_come_in_any_pieces<D: Database>() {
    let mut bench = Bench::<D>::new().await;
    let script = ["BEGIN", "insert into effect values (1)", " \n commit"].map(D::Raw::query).concat();
    for piece in [1, 2, 3, 7, script.len()] {
        for (cut, effects) in [(Cut::BeforeCommit, 0), (Cut::AfterCommit, 1)] {
            let before = bench.effects().await;
            bench.proxy.cut_commits(cut, 1, 1);
            let mut client = D::Raw::start(&bench, piece).await;
            client.send(&script, piece).await;
            let answers = client.answers_to_the_end().await;
            bench.proxy.all_cut().await;
            assert_eq!(bench.effects().await, before + effects);
            match cut {
                Cut::BeforeCommit => assert!(D::Raw::DONE.starts_with(&answers), "{answers:?}"),
                _ => assert_eq!(answers, D::Raw::DONE),
            }
        }
    }
}

pub(crate) async fn severed_clients_see_an_error_and_may_come_back<D: Database>() {
    let mut bench = Bench::<D>::new().await;
    for round in 1..=times() {
        let (mut one, mut other) = (bench.client().await, bench.client().await);
        D::insert(&mut one).await.expect("connected");
        bench.proxy.sever_all();
        D::insert(&mut one).await.expect_err("severed");
        D::insert(&mut other).await.expect_err("severed, though idle");
        assert_eq!(bench.effects().await, i64::from(round));
    }
}

pub(crate) async fn what_is_held_arrives_when_it_is_resumed<D: Database>() {
    let mut bench = Bench::<D>::new().await;
    let mut client = bench.client().await;
    for round in 1..=times() {
        bench.proxy.hold();
        let held = tokio::spawn(async move {
            D::insert(&mut client).await.expect("in the end");
            client
        });
        bench.proxy.holding().await;
        assert_eq!(bench.effects().await, i64::from(round - 1));
        assert!(!held.is_finished());
        bench.proxy.resume();
        client = held.await.expect("a client");
        assert_eq!(bench.effects().await, i64::from(round));
    }
}

pub(crate) async fn a_held_client_can_be_severed_and_a_new_one_is_held<D: Database>() {
    let bench = Bench::<D>::new().await;
    for _ in 0..times() {
        let mut client = bench.client().await;
        bench.proxy.hold();
        let held = tokio::spawn(async move { D::insert(&mut client).await });
        bench.proxy.holding().await;
        bench.proxy.sever_all();
        held.await.expect("no panic").expect_err("severed");
        let url = bench.url.clone();
        let new = tokio::spawn(async move { D::Client::connect(&url).await });
        bench.proxy.holding().await;
        assert!(!new.is_finished());
        bench.proxy.resume();
        new.await.expect("no panic").expect("connected in the end");
    }
}

pub(crate) async fn new_clients_are_refused_and_old_ones_stay<D: Database>() {
    let bench = Bench::<D>::new().await;
    let mut old = bench.client().await;
    for _ in 0..times() {
        bench.proxy.refuse(true);
        let refused = D::Client::connect(&bench.url).await;
        refused.expect_err("refused");
        D::insert(&mut old).await.expect("still connected");
        bench.proxy.refuse(false);
        bench.client().await.close().await.expect("no longer refused");
    }
}

pub(crate) async fn swallowed_answers_leave_the_effect_and_the_client_without_a_word<D: Database>() {
    let mut bench = Bench::<D>::new().await;
    let mut other = bench.client().await;
    for (round, prepared) in [(1, false), (2, true)] {
        bench.proxy.silence_at(Silence::Answers, Whom::Speaker, "COMMIT", 2);
        let mut client = bench.client().await;
        D::insert(&mut other).await.expect("the first COMMIT");
        let silenced = tokio::spawn(async move {
            if prepared { D::insert_prepared(&mut client).await } else { D::insert(&mut client).await }
        });
        bench.proxy.silenced().await;
        eventually("the effect of the COMMIT", async || bench.effects().await == 2 * round).await;
        assert!(!silenced.is_finished());
        silenced.abort();
        drop(silenced.await);
        bench.sessions_settle_at(1).await;
        assert_eq!(bench.effects().await, 2 * round);
    }
    D::insert(&mut other).await.expect("only the one that spoke is silent");
}

pub(crate) async fn in_full_silence_the_session_outlives_its_client<D: Database>() {
    let mut bench = Bench::<D>::new().await;
    bench.proxy.silence_at(Silence::Both, Whom::Speaker, "commit", 1);
    let mut client = bench.client().await;
    let silenced = tokio::spawn(async move { D::insert(&mut client).await });
    bench.proxy.silenced().await;
    assert!(!silenced.is_finished());
    silenced.abort();
    drop(silenced.await);
    for round in 1..=10 {
        insert::<D>(&bench.url).await.expect("others go on");
        assert_eq!(bench.effects().await, round, "the COMMIT has not arrived");
        assert!(bench.sessions().await >= 1, "the session is there");
    }
    bench.proxy.sever_all();
    bench.sessions_settle_at(0).await;
    assert_eq!(bench.effects().await, 10);
}

pub(crate) async fn everyone_falls_silent_and_new_clients_work<D: Database>() {
    for silence in [Silence::Answers, Silence::Both] {
        let mut bench = Bench::<D>::new().await;
        let mut clients: Vec<_> = [bench.client().await, bench.client().await].into();
        bench.proxy.silence_at(silence, Whom::Everyone, "%into effect%", 1);
        let mut old = JoinSet::new();
        for mut client in clients.drain(..) {
            old.spawn(async move { D::insert(&mut client).await });
        }
        bench.proxy.silenced().await;
        insert::<D>(&bench.url).await.expect("a new one");
        assert!(old.try_join_next().is_none(), "an old one has heard something");
        // Nobody learns that the other side has hung up.
        bench.end_other_sessions().await;
        insert::<D>(&bench.url).await.expect("a new one");
        assert!(old.try_join_next().is_none(), "an old one has heard something");
        bench.proxy.sever_all();
        while let Some(ended) = old.join_next().await {
            ended.expect("no panic").expect_err("severed");
        }
        assert_eq!(bench.effects().await, 2, "{silence:?}");
    }
}

pub(crate) async fn a_dropped_proxy_has_closed_its_connections<D: Database>() {
    let bench = Bench::<D>::new().await;
    let mut client = bench.client().await;
    let url = bench.url.clone();
    drop(bench);
    client.ping().await.expect_err("no proxy");
    let refused = D::Client::connect(&url).await;
    refused.expect_err("no proxy");
}
