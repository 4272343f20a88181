//! `:name` in the action `sql`: what is a string or a comment for the server is one for ichido too.

use crate::testenv::{Env, Kind};

on_all!(names_are_found_as_the_server_reads_the_statement, a_column_whose_name_is_no_word_is_written_in_quotes,);

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

async fn a_column_whose_name_is_no_word_is_written_in_quotes(kind: Kind) {
    let env = Env::new(kind).await;
    let column = if kind == Kind::MariaDb { "`made-by whom`" } else { "\"made-by whom\"" };
    env.sql(&format!("alter table received_order add column {column} varchar(20)")).await;
    let action = |name: &str| {
        format!("\n[actions.Other]\nfrom = \"orders\"\nsql = ['insert into project values (:id, :{name}, :name)']\n")
    };
    env.configure(|config| config + &action("made"));
    env.run(&["check"]).await.assert_refused(127, &["`:made`", "`made-by whom` is written `:\"made-by whom\"`"]);
    env.configure(|config| config + &action("\"made-by whom\""));
    env.send_orders([1]).await;
    env.sql(&format!("update received_order set {column} = 'Ada''s :x'")).await;
    env.ok(&["run", "Other", "--drain"]).await;
    assert_eq!(env.text("select name from project").await, "Ada's :x");
}
