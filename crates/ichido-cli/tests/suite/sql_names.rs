//! `:name` in the action `sql`: what is a string or a comment for the server is one for ichido too.

use crate::testenv::{Env, Kind};

on_all!(names_are_found_as_the_server_reads_the_statement);

async fn names_are_found_as_the_server_reads_the_statement(kind: Kind) {
    let env = Env::new(kind).await;
    let (statement, name) = match kind {
        Kind::Sqlite => (r"insert into project ([id], name, made_by) values (:id, '\', :name) /* it's :x", r"\"),
        Kind::Postgres => {
            (r"insert into project values (:id, E'it\'s :x' || $$ :x$$, :name /* /* ' */ :x */)", "it's :x :x")
        }
        Kind::MariaDb => {
            ("insert into project values (/*!50000 :id */, 'it\\'s :x', :name) # it's :x\n -- it's :x", "it's :x")
        }
    };
    env.configure(|config| config + &format!("\n[actions.Other]\nfrom = \"orders\"\nsql = ['''{statement}''']\n"));
    env.send_orders([1]).await;
    env.ok(&["run", "Other", "--drain"]).await;
    assert_eq!(env.text("select name from project").await, name);
    assert_eq!(env.text("select made_by from project where id = 1").await, "order 1");
}
