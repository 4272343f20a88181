//! Processes of a test's own: the test program runs itself, and only the ignored test `crash::child` in it, which
//! [`crashing!`](crate::crashing) writes. What such a process does is told by its environment.

use std::{any::type_name, env, process::Stdio};

use tokio::process::{Child, Command};

use crate::{
    cases::crash::{deaths, files},
    fixture::Fixture,
};

/// Whose child it is: a program may have tests of several fixtures.
const FIXTURE: &str = "ICHIDO_TEST_FIXTURE";
const PLACE: &str = "ICHIDO_TEST_PLACE";
const ROLE: &str = "ICHIDO_TEST_ROLE";

/// What a process of the tests does; nothing, if it is not this fixture's.
pub async fn child<F: Fixture>() {
    let (Ok(place), Ok(role)) = (env::var(PLACE), env::var(ROLE)) else { return };
    if env::var(FIXTURE).is_ok_and(|fixture| fixture == type_name::<F>()) {
        let fixture = F::at(&place).await;
        if role.starts_with("files") {
            files::child(fixture, &role).await;
        } else {
            deaths::child(fixture, &role).await;
        }
    }
}

/// Starts a process.
pub(crate) fn start<F: Fixture>(fixture: &F, role: &str) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "crash::child"]);
    command.env(FIXTURE, type_name::<F>()).env(PLACE, fixture.place()).env(ROLE, role);
    command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap()
}

/// Starts a process again until it ends well; says how often it died.
pub(crate) async fn supervise<F: Fixture>(fixture: &F, role: &str, most: u32) -> u32 {
    for deaths in 0..most {
        if start(fixture, role).wait().await.unwrap().success() {
            return deaths;
        }
    }
    panic!("it died {most} times");
}
