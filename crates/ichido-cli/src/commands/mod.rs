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

/// Runs a command and returns the exit code.
pub(crate) async fn run(cli: Cli, parts: Parts) -> Result<u8, Failure> {
    if let Command::Demo(demo) = cli.command {
        return demo::run(demo).await;
    }
    match &cli.command {
        Command::Adopt(adopt) => {
            let talk = (cli.verbose, cli.quiet);
            return Box::pin(adopt::run(adopt.clone(), &cli.config, cli.database_url.as_deref(), talk)).await;
        }
        Command::Init(init) => return init::run(init, &cli.config, cli.database_url.as_deref(), cli.quiet),
        Command::Completions(asked) => return papers::completions(asked),
        Command::Man(asked) => return papers::man(asked),
        _ => {}
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
    // Lines between those of a screen would only spoil it; what they say, the screen says.
    let has_screen = matches!(&cli.command, Command::Status(status) if status.has_screen());
    logging::start(&config.log, &config.telemetry, cli.verbose, cli.quiet || has_screen)?;
    match cli.command {
        Command::Demo(_) | Command::Adopt(_) | Command::Init(_) | Command::Completions(_) | Command::Man(_) => {
            unreachable!("done above")
        }
        Command::Migrate(migrate) => on_store(&config, migrate).await,
        Command::Check(check) => on_store(&config, With { args: check, parts }).await,
        Command::Run(run) => on_store(&config, With { args: run, parts }).await,
        Command::Serve(serve) => on_store(&config, With { args: serve, parts }).await,
        Command::Send(send) => on_store(&config, send).await,
        Command::Relay => on_store(&config, relay::Relay).await,
        Command::Status(status) => on_store(&config, status).await,
        Command::Stop(request) => on_store(&config, SetFlag::new(request, Flag::Stop, true)).await,
        Command::Unstop(request) => on_store(&config, SetFlag::new(request, Flag::Stop, false)).await,
        Command::Pause(request) => on_store(&config, SetFlag::new(request, Flag::Pause, true)).await,
        Command::Resume(request) => on_store(&config, SetFlag::new(request, Flag::Pause, false)).await,
        Command::Health(health) => on_store(&config, health).await,
        Command::Messages(messages) => on_store(&config, messages).await,
        Command::Failed(failed) => on_store(&config, failed).await,
        Command::Audit(audit) => on_store(&config, audit).await,
        Command::Doctor(doctor) => on_store(&config, doctor).await,
        Command::Lanes(Lanes::Simulate(simulate)) => lanes::simulate(&simulate, &config),
    }
}
