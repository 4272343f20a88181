//! Files that an action opens through its context, when processes die.

use std::{fs, path::Path, sync::Arc, time::Duration};

use ichido::{Context, Outcome, Process, Result, RetryPolicy};

use crate::{
    cases::store::files::{Order, drain, files, filing, notes, orders, seen, with_names, write},
    child::{start, supervise},
    eventually,
    faults::{Fault, Faults, FaultyStore, Verb},
    fixture::{Fixture, effects, failed, with_orders},
    size,
};

/// Writes its file, and dies with the fifth COMMIT if it is told to.
struct Dies<F: Fixture> {
    faults: Arc<Faults>,
    at_commit: bool,
    _of: std::marker::PhantomData<fn(F)>,
}

impl<F: Fixture> ichido::Action<FaultyStore<F::Store>> for Dies<F> {
    type Message = Order;

    async fn handle(&self, cx: &mut Context<FaultyStore<F::Store>>, order: Order) -> Result<Outcome> {
        if self.at_commit && cx.execution_number() == 5 {
            self.faults.inject(Verb::Commit, Fault::Crash, 1);
        }
        write::<F, _>(cx, order).await
    }
}

/// What a process of these tests does: `files FOLDER` or `files, dying FOLDER`.
pub(crate) async fn child<F: Fixture>(fixture: F, role: &str) {
    let (role, folder) = role.split_once(" /").expect("a role and a folder");
    let faults = Arc::<Faults>::default();
    let process = Process::new(FaultyStore::new(fixture.store(), faults.clone())).lease(Duration::from_secs(1));
    let action = Dies::<F> { faults, at_commit: role == "files, dying", _of: std::marker::PhantomData };
    let pool = orders().retry(RetryPolicy { attempts: 99, ..RetryPolicy::default() });
    assert_eq!(drain(filing(process.action(pool, action), &Path::new("/").join(folder))).await, 0);
}

pub async fn a_death_after_commit_takes_no_file_away<F: Fixture>() {
    let (fixture, folder): (F, _) = with_names(&[""; 12]).await;
    let role = |role: &str| format!("{role} {}", folder.path().display());
    assert!(!start(&fixture, &role("files, dying")).wait().await.unwrap().success(), "it died");
    let hidden = seen(folder.path()).into_keys().filter(|name| name.starts_with(".ichido")).count();
    assert!(hidden > 0, "what was committed last is not seen yet");
    supervise(&fixture, &role("files"), 2).await;
    assert_eq!(seen(folder.path()), files(&(1..=12).collect::<Vec<_>>()));
    assert_eq!(effects(&fixture).await, 12);
}

/// Two processes, one of which is killed each time that some files more are seen.
pub async fn each_effect_has_its_file_however_often_processes_are_killed<F: Fixture>() {
    let count = i64::from(size(150, 3000));
    let fixture = with_orders::<F>(count).await;
    let folder = tempfile::tempdir().unwrap();
    let role = format!("files {}", folder.path().display());
    let appeared = || fs::read_dir(folder.path().join("orders")).map_or(0, Iterator::count);
    let (mut processes, mut kills, mut next) = ([start(&fixture, &role), start(&fixture, &role)], 0, 20);
    while next < usize::try_from(count).unwrap() {
        eventually(format!("{next} files, or nobody to write more"), async || {
            appeared() >= next || processes.iter_mut().all(|process| process.try_wait().unwrap().is_some())
        })
        .await;
        let killed = &mut processes[kills % 2];
        killed.kill().await.unwrap();
        *killed = start(&fixture, &role);
        (kills, next) = (kills + 1, appeared() + 20);
    }
    for mut process in processes {
        assert!(process.wait().await.unwrap().success());
    }
    supervise(&fixture, &role, 1).await;
    assert_eq!(seen(folder.path()), files(&(1..=count).collect::<Vec<_>>()));
    assert_eq!((effects(&fixture).await, failed(&fixture).await.len()), (count, 0));
    let revoked = "select count(case when revoked then 1 end) from ichido_files";
    assert_eq!(notes(&fixture).await, fixture.number(revoked).await, "what is in its place is forgotten");
    println!("{kills} kills, {count} files");
}
