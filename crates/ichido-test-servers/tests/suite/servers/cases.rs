//! What every database server keeps, whatever its kind: `cases!` makes the tests of one. A file that uses it has a
//! function `process_of`, which tells the process of the server in a folder.

/// Takes the server, its function that runs SQL, a client of it, a setting that is none and what the server says of it, its words for a
/// port that is taken, and the path of the test `child`, which this makes too.
macro_rules! cases {
    ($server:ident, $sql:ident, $client:ident, $bad:expr, $says:literal, $taken:literal, $child:literal) => {
        #[test]
        fn a_server_that_does_not_start_says_why() {
            let panic = std::panic::catch_unwind(|| $server::start(&[$bad])).expect_err("a setting that is none");
            let words = panic.downcast_ref::<String>().expect("a message");
            assert!(words.contains(" did not start on port ") && words.contains($says), "{words}");
        }

        #[test]
        fn a_copy_has_what_its_original_has_and_is_another_database() {
            let server = $server::shared();
            let original = server.fresh_database();
            server.$sql(&original, "create table t (n int primary key)");
            server.$sql(&original, "create table s (n int not null, foreign key (n) references t (n))");
            server.$sql(&original, "insert into t values (1)");
            let copies = [server.copy_of(&original), server.copy_of(&original)];
            server.$sql(&copies[0], "insert into t values (2)");
            let rows = [&original, &copies[0], &copies[1]].map(|url| server.$sql(url, "select count(*) from t"));
            assert_eq!(rows, ["1", "2", "1"]);
            let orphan = || server.$sql(&copies[0], "insert into s values (9)");
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(orphan)).expect_err("the foreign key is copied too");
        }

        #[test]
        fn a_stopped_server_refuses_and_comes_back_with_its_data() {
            let server = $server::start(&[]);
            let database = server.fresh_database();
            server.$sql(&database, "create table t (n int)");
            for round in 1..=3 {
                server.$sql(&database, "insert into t values (1)");
                server.stop();
                let refused = std::net::TcpStream::connect(server.address()).expect_err("stopped");
                assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
                server.start_again();
                assert_eq!(server.$sql(&database, "select count(*) from t"), round.to_string());
            }
        }

        #[test]
        #[should_panic(expected = $taken)]
        fn a_server_whose_port_was_taken_meanwhile_says_so() {
            let server = $server::start(&[]);
            server.stop();
            let _taken = std::net::TcpListener::bind(server.address()).expect("a free port");
            server.start_again();
        }

        #[tokio::test]
        async fn a_killed_server_keeps_what_was_committed_and_nothing_else() {
            let server = $server::start(&[]);
            let database = server.fresh_database();
            server.$sql(&database, "create table t (n int)");
            for round in 1..=3 {
                server.$sql(&database, "insert into t values (1)");
                let mut client = $client::connect(&database).await.expect("a client");
                let mut open = client.begin().await.expect("a transaction");
                let insert = sqlx::query("insert into t values (2)");
                insert.execute(&mut *open).await.expect("an open row");
                server.kill();
                open.commit().await.expect_err("killed");
                server.start_again();
                assert_eq!(server.$sql(&database, "select count(*), sum(n) from t"), format!("{round}|{round}"));
            }
        }

        #[test]
        fn a_dropped_server_is_gone() {
            let server = $server::start(&[]);
            let (address, folder) = (server.address(), server.folder().to_owned());
            let pid = process_of(&folder);
            drop(server);
            $crate::servers::test_process::assert_gone(pid, &folder);
            std::net::TcpStream::connect(address).expect_err("dropped");
        }

        #[test]
        fn a_server_killed_and_not_started_again_leaves_no_folder() {
            let server = $server::start(&[]);
            let folder = server.folder().to_owned();
            let pid = process_of(&folder);
            server.kill();
            drop(server);
            $crate::servers::test_process::assert_gone(pid, &folder);
        }

        #[test]
        fn the_server_ends_when_the_test_process_ends() {
            let child = $crate::servers::test_process::TestProcess::of($child, "ends");
            assert!(child.end().success());
        }

        #[test]
        fn the_server_ends_when_the_test_process_fails() {
            let child = $crate::servers::test_process::TestProcess::of($child, "fails");
            assert_eq!(child.end().code(), Some(101));
        }

        #[test]
        fn the_server_ends_when_the_test_process_is_killed() {
            let mut child = $crate::servers::test_process::TestProcess::of($child, "is killed");
            child.kill();
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.end()), Some(9));
        }

        /// Not a test of its own: what the processes of the three tests above run.
        #[test]
        #[ignore = "started by the tests above"]
        fn child() {
            $crate::servers::test_process::play(|| {
                let folder = $server::shared().folder();
                (process_of(folder), folder.to_owned())
            });
        }
    };
}
pub(crate) use cases;
