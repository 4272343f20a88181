//! The built-in action `exec`: a program, without a shell. It gets the message as JSON on its standard input and says by its exit code
//! what became of it: 0 done, 65 park, 100–119 abort, anything else retry. It runs in a process group of its own, which is ended with
//! it: when it has ended, when the action is out of time, and when the process stops and `grace` is over.

use std::{
    env,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use ichido::{Action, Context, Outcome, Result, Store, message::Whole};
use tokio::{
    io::AsyncWriteExt,
    process::{ChildStdin, Command},
};

use crate::config;

use super::{
    groups::{GO, Group, SHELL, waiting},
    output::{Tail, follow},
};

/// What a program says that cannot do anything with this message (`EX_DATAERR` of sysexits).
const PARK: i32 = 65;

/// What every program gets of ichido's environment. The rest may hold the passwords of the database and the broker.
const VARIABLES: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

/// So long a program that has left its group may hold the pipes after the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A program to run for each message.
#[derive(Debug, Clone)]
pub(crate) struct ExecAction {
    program: PathBuf,
    arguments: Vec<String>,
    variables: Vec<String>,
}

impl ExecAction {
    /// The program and its arguments.
    ///
    /// # Errors
    /// The text says that there is no such program, or that it cannot be run.
    pub(crate) fn new(exec: &config::ExecAction) -> Result<Self, String> {
        let (name, arguments) = exec.argv.split_first().ok_or("no program given")?;
        found(SHELL).map_err(|why| format!("{why}; ichido needs it to end its programs if it is killed"))?;
        Ok(ExecAction { program: found(name)?, arguments: arguments.to_vec(), variables: exec.env.clone() })
    }

    fn command<S: Store>(&self, cx: &Context<S>) -> Result<Command> {
        let mut command = waiting(&self.program, &self.arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let named = VARIABLES.into_iter().chain(self.variables.iter().map(String::as_str));
        command.envs(named.filter_map(|name| Some((name, env::var_os(name)?))));
        command.env("ICHIDO_MESSAGE_ID", cx.message_id()?.to_string());
        command.env("ICHIDO_QUEUE", &*cx.message()?.queue);
        command.env("ICHIDO_ATTEMPT", cx.attempt().to_string());
        command.env("ICHIDO_REQUEST_ID", cx.request_id());
        command.env("ICHIDO_USER_ID", cx.user_id());
        Ok(command)
    }

    fn name(&self) -> impl std::fmt::Display + '_ {
        self.program.display()
    }
}

impl<S: Store> Action<S> for ExecAction {
    type Message = Whole;

    async fn handle(&self, cx: &mut Context<S>, message: Whole) -> Result<Outcome> {
        let json = message.json(cx.attempt())?;
        let started = Group::spawn(&mut self.command(cx)?);
        let (mut child, group) = started.map_err(|why| format!("cannot start `{}`: {why}", self.name()))?;
        let hidden = cx.masks().hidden(&cx.message()?.payload, &cx.message()?.headers);
        let hide = |line: &str| hidden.hide(line);
        let (mut said, mut unkept) = (Tail::default(), Tail::default());
        let (input, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let status = {
            let out = follow(out, &mut unkept, &hide, |line| tracing::debug!("stdout: {line}"));
            let err = follow(err, &mut said, &hide, |line| tracing::info!("stderr: {line}"));
            let mut talk = std::pin::pin!(async { tokio::join!(write(input, json), out, err) });
            let (status, all_said) = tokio::select! {
                status = child.wait() => (status, false),
                _ = &mut talk => (child.wait().await, true),
            };
            // What it has left behind would hold the pipes open.
            drop(group);
            if !all_said {
                let _ = tokio::time::timeout(LAST_WORDS, talk).await;
            }
            status.map_err(|why| format!("cannot determine how `{}` ended: {why}", self.name()))?
        };
        self.outcome(cx, status, &said.text(&hide))
    }
}

impl ExecAction {
    fn outcome<S: Store>(&self, cx: &Context<S>, status: ExitStatus, said: &str) -> Result<Outcome> {
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exited with code {code}"),
            (None, Some(signal)) => format!("was killed by signal {signal}"),
            (None, None) => "ended".into(),
        };
        let text = format!("`{}` {how}{}{said}", self.name(), if said.is_empty() { "" } else { ": " });
        match status.code() {
            Some(0) => Ok(Outcome::Done),
            Some(PARK) => Ok(Outcome::Park(text)),
            Some(code @ 100..=119) => {
                tracing::error!("{}", cx.masked(&text));
                Ok(Outcome::Abort(u8::try_from(code)?))
            }
            _ => Err(text.into()),
        }
    }
}

/// A program need not read what it is given.
async fn write(input: Option<ChildStdin>, json: String) {
    let Some(mut input) = input else { return };
    if let Err(error) = input.write_all(format!("{GO}{json}\n").as_bytes()).await {
        tracing::debug!(%error, "the program did not read the whole message");
    }
}

/// Where the program is: a path if it has a `/`, else the first in `PATH`.
fn found(name: &str) -> Result<PathBuf, String> {
    let path = Path::new(name);
    if name.contains('/') {
        return match path.metadata() {
            Err(why) => Err(format!("cannot find the program `{name}`: {why}")),
            Ok(_) if !is_program(path) => Err(format!("`{name}` is not an executable file")),
            Ok(_) => Ok(std::path::absolute(path).unwrap_or_else(|_| path.into())),
        };
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| is_program(path));
    found.ok_or_else(|| format!("no program `{name}` in PATH"))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_path_or_where_it_says() {
        assert!(found("sh").unwrap().is_absolute());
        assert_eq!(found("/bin/sh").unwrap(), Path::new("/bin/sh"));
        for (name, why) in [
            ("ichido-no-such-program", "no program `ichido-no-such-program` in PATH"),
            ("/no/such/program", "cannot find the program `/no/such/program`"),
            ("/etc/passwd", "is not an executable file"),
            ("/", "is not an executable file"),
        ] {
            assert!(found(name).unwrap_err().contains(why), "{name}");
        }
    }
}
