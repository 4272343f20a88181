//! `adopt` on tables of public projects: shops, ticket systems, mail queues and job tables, written down from their documentation in
//! `schemas/public`. Where words say what is new and done, it is sure; everything else it asks, and applies nothing.

use serde_json::Value;

use crate::schemas::world;
use crate::testenv::{Env, Kind};

/// What `adopt` says about a table.
enum Says {
    /// Sure of the column and what its values mean: new, done and failed.
    Sure(&'static str, [&'static str; 3]),
    /// A guess, marked; these texts say why it is not applied.
    Guesses(&'static [&'static str]),
    /// Nothing but a question.
    Asks(&'static [&'static str]),
    /// No status: the statements that add one, and what may say which rows are done.
    Lacks(Option<&'static str>),
}

use Says::{Asks, Guesses, Lacks, Sure};

macro_rules! table {
    ($file:literal, $table:literal, $says:expr) => {
        ($table, include_str!(concat!("schemas/public/", $file, ".sql")), $says)
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_projects_on_mariadb() {
    assert_said(
        Kind::MariaDb,
        &[
            table!("action_scheduler", "wp_actionscheduler_actions", Sure("status", ["pending", "complete", "failed"])),
            table!("woocommerce", "wp_wc_orders", Asks(&["`status` mean new and done", "`wc-pending` 1"])),
            table!("magento_order", "sales_order", Asks(&["several columns", "`state`", "`status`"])),
            table!("magento_queue", "queue_message_status", Asks(&["`status` mean new and done", "--new and --done"])),
            table!("prestashop", "ps_orders", Asks(&["`current_state` mean new and done"])),
            table!("opencart", "oc_order", Guesses(&["`0` means new", "a number can mean anything"])),
            table!("osticket", "ost_ticket", Guesses(&["`0` means new", "a number can mean anything"])),
            table!("otrs", "ticket", Asks(&["`ticket_state_id` mean new and done"])),
            table!("mediawiki", "job", Lacks(None)),
            table!("drupal", "queue", Lacks(None)),
            table!("postal", "queued_messages", Lacks(None)),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_projects_on_postgresql() {
    assert_said(
        Kind::Postgres,
        &[
            table!("symfony", "messenger_messages", Lacks(Some("delivered_at"))),
            table!("good_job", "good_jobs", Lacks(Some("finished_at"))),
            table!("que", "que_jobs", Lacks(Some("finished_at"))),
            table!("delayed_job", "delayed_jobs", Lacks(None)),
            table!("quartz", "qrtz_triggers", Guesses(&["`WAITING` means new", "it can mean something else"])),
            table!("odoo", "mail_mail", Guesses(&["`received` means new", "but so is `outgoing`"])),
            table!("post_office", "post_office_email", Guesses(&["`0` means new", "a number can mean anything"])),
            table!("celery", "django_celery_results_taskresult", Guesses(&["`worker` may be the owner", "--owner"])),
            table!("airflow", "dag_run", Sure("state", ["queued", "success", "failed"])),
            table!("oban", "oban_jobs", Guesses(&["`available` means new", "nothing says that it means new"])),
            table!("pg_boss", "pgboss_job", Guesses(&["`created` means new", "nothing says what `retry` means"])),
            table!("spree", "spree_orders", Asks(&["`state` mean new and done", "`cart` 1"])),
            table!("saleor", "order_order", Guesses(&["`unfulfilled` means new", "nothing says"])),
            table!("zammad", "tickets", Asks(&["several columns", "`state_id`", "`approval_state`"])),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_projects_on_sqlite() {
    assert_said(
        Kind::Sqlite,
        &[
            table!("laravel", "jobs", Lacks(None)),
            table!("solid_queue", "solid_queue_jobs", Lacks(Some("finished_at"))),
            table!("django_mailer", "mailer_message", Lacks(None)),
            table!("redmine", "issues", Asks(&["`status_id` mean new and done"])),
        ],
    )
    .await;
}

/// Looks at each table, and tries to adopt those it is not sure of; nothing changes.
async fn assert_said(kind: Kind, tables: &[(&str, &str, Says)]) {
    let all: Vec<_> = tables.iter().map(|(_, sql, _)| *sql).collect();
    let env = world(kind, &all.join("\n"), "anything", "x").await;
    // Each action waits for a queue that is there, or for the one that is adopted.
    env.configure(|_| format!("[database]\nurl = \"{}\"\n", env.url));
    let before = env.everything().await;
    for (table, _, says) in tables {
        match says {
            Sure(column, values) => assert_sure(&env, table, column, values).await,
            Guesses(why) => {
                env.ok(&["adopt", "--table", table]).await;
                env.run(&["adopt", "--table", table, "--apply"]).await.assert_refused(127, why);
            }
            Asks(why) => env.run(&["adopt", "--table", table, "--apply"]).await.assert_refused(127, why),
            Lacks(done) => assert_lacking(&env, table, *done).await,
        }
        assert_eq!(env.everything().await, before, "{table} was changed");
    }
}

async fn assert_sure(env: &Env, table: &str, column: &str, values: &[&str; 3]) {
    let report: Value = serde_json::from_str(&env.ok(&["adopt", "--table", table, "--json"]).await).unwrap();
    let status = &report["status"];
    assert_eq!(status["column"], column, "{report}");
    for (meaning, value) in ["new", "done", "failed"].into_iter().zip(values) {
        assert_eq!((&status[meaning]["value"], &status[meaning]["sure"]), (&(*value).into(), &true.into()), "{report}");
    }
    assert_eq!(report["owner"]["doubt"], Value::Null, "{report}");
}

/// Rows that are there are marked before anybody takes them for new, and the statement cannot run as it stands.
async fn assert_lacking(env: &Env, table: &str, done: Option<&str>) {
    let asked = env.run(&["adopt", "--table", table, "--apply"]).await;
    assert_eq!((asked.code, asked.stdout.as_str()), (Some(127), ""), "{asked:?}");
    for part in
        ["looks like a status", "add column", "= 'done' where …; -- which rows are done already?", done.unwrap_or("")]
    {
        assert!(asked.stderr.contains(part), "`{part}` is not in: {asked:?}");
    }
    assert_eq!(asked.stderr.contains("Perhaps those where"), done.is_some(), "{asked:?}");
}
