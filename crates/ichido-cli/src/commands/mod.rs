//! The commands, one file each.

mod adopt;
mod audit;
mod check;
#[cfg(feature = "sqlite")]
mod demo;
#[cfg(not(feature = "sqlite"))]
#[path = "no_demo.rs"]
mod demo;
mod doctor;
mod failed;
mod flags;
mod health;
mod init;
mod lanes;
mod messages;
mod migrate;
mod papers;
mod relay;
mod run;
mod send;
#[cfg(feature = "console")]
mod serve;
#[cfg(not(feature = "console"))]
#[path = "no_serve.rs"]
mod serve;
mod status;

use ichido::{process::Flag, store::By};

use self::flags::SetFlag;
pub(crate) use self::status::fail_if::Limit;
use crate::{
    args::{Cli, Command, Lanes},
    config::Config,
    failure::Failure,
    lanes::only_level,
    logging,
    open::{Backend, on_store},
    own::Parts,
};

/// A command that concerns the program's own actions and handlers.
pub(crate) struct With<A> {
    pub(crate) args: A,
    pub(crate) parts: Parts,
}

/// The store, where whoever runs this program changes things for this reason.
fn by<S: Backend>(store: &S, reason: Option<String>) -> S {
    store.by(By::here().because(reason))
}

/// The configuration of a command, as the command line has changed it; none for the commands that need none, or find it themselves.
pub(crate) fn configuration(cli: &Cli) -> Result<Option<Config>, Failure> {
    if matches!(
        cli.command,
        Command::Demo(_) | Command::Adopt(_) | Command::Init(_) | Command::Completions(_) | Command::Man(_)
    ) {
        return Ok(None);
    }
    let mut config = Config::load(&cli.config)?;
    if let Some(url) = &cli.database_url {
        config.override_url(url, "--database-url")?;
    }
    config.check_claims(&cli.config.display().to_string())?;
    if let Command::Run(run) = &cli.command
        && let Some(level) = &run.level
    {
        only_level(&mut config, level, run.path.as_deref().or(run.request_path.as_deref()))?;
    }
    Ok(Some(config))
}

/// Runs a command and returns the exit code.
pub(crate) async fn run(cli: Cli, config: Option<Config>, parts: Parts) -> Result<u8, Failure> {
    match (cli.command, config) {
        (Command::Demo(demo), _) => demo::run(demo).await,
        (Command::Adopt(adopt), _) => {
            let talk = (cli.verbose, cli.quiet);
            Box::pin(adopt::run(adopt, &cli.config, cli.database_url.as_deref(), talk)).await
        }
        (Command::Init(init), _) => init::run(&init, &cli.config, cli.database_url.as_deref(), cli.quiet),
        (Command::Completions(asked), _) => papers::completions(&asked),
        (Command::Man(asked), _) => papers::man(&asked),
        (command, Some(config)) => configured(command, &config, (cli.verbose, cli.quiet), parts).await,
        (_, None) => unreachable!("`configuration` has one for every other command"),
    }
}

async fn configured(command: Command, config: &Config, talk: (u8, bool), parts: Parts) -> Result<u8, Failure> {
    // Lines between those of a screen would only spoil it; what they say, the screen says.
    let has_screen = matches!(&command, Command::Status(status) if status.has_screen());
    logging::start(&config.log, &config.telemetry, talk.0, talk.1 || has_screen)?;
    match command {
        Command::Demo(_) | Command::Adopt(_) | Command::Init(_) | Command::Completions(_) | Command::Man(_) => {
            unreachable!("`run` has done these")
        }
        Command::Migrate(migrate) => on_store(config, migrate).await,
        Command::Check(check) => on_store(config, With { args: check, parts }).await,
        Command::Run(run) => on_store(config, With { args: run, parts }).await,
        Command::Serve(serve) => on_store(config, With { args: serve, parts }).await,
        Command::Send(send) => on_store(config, send).await,
        Command::Relay => on_store(config, relay::Relay).await,
        Command::Status(status) => on_store(config, status).await,
        Command::Stop(request) => on_store(config, SetFlag::new(request, Flag::Stop, true)).await,
        Command::Unstop(request) => on_store(config, SetFlag::new(request, Flag::Stop, false)).await,
        Command::Pause(request) => on_store(config, SetFlag::new(request, Flag::Pause, true)).await,
        Command::Resume(request) => on_store(config, SetFlag::new(request, Flag::Pause, false)).await,
        Command::Health(health) => on_store(config, health).await,
        Command::Messages(messages) => on_store(config, messages).await,
        Command::Failed(failed) => on_store(config, failed).await,
        Command::Audit(audit) => on_store(config, audit).await,
        Command::Doctor(doctor) => on_store(config, doctor).await,
        Command::Lanes(Lanes::Simulate(simulate)) => lanes::simulate(&simulate, config),
    }
}
