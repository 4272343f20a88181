//! `ichido serve`: the console, the HTTP API and the metrics of the fleet. It asks the database only when somebody asks it, so it starts without one.
//! `listen` accepts connections, `connections` makes room for them, `at_brokers` is what the console asks of brokers, `places` tells of queues and lane sets for the settings page.

mod at_brokers;
mod connections;
mod listen;
mod places;

use std::net::SocketAddr;

use ichido::{CancellationToken, HandlerQueue, process::HandlerQueues};
use ichido_console::{Chain, ChainLink, Console, Role, Settings, Token};

use self::{at_brokers::AtBrokers, listen::Listener};
use super::{With, run::stop_on_signals};
use crate::{
    args::Serve,
    brokers::Brokers,
    config::{Config, ServeRole},
    failure::Failure,
    in_force,
    lanes::targets,
    open::{Backend, OnStore},
    output,
    own::Parts,
    program, tls,
};

impl OnStore for With<Serve> {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        let address = self.args.listen.unwrap_or(config.serve.listen);
        refuse_open(address, config)?;
        let tls = config.serve.tls.as_ref().map(|(cert, key)| tls::acceptor(cert, key));
        let tls = tls.transpose().map_err(|why| Failure::usage(format!("serve.tls: {why}")))?;
        let stop = CancellationToken::new();
        stop_on_signals(stop.clone(), "closing connections")?;
        let listener = Listener::bind(address, tls, config.serve.behind_proxy).await?;
        let scheme = if config.serve.tls.is_some() { "https" } else { "http" };
        output::talk(&format!("ichido: the console is at {scheme}://{}/", listener.address()?));
        let console = console(store, config, self.parts)?;
        listener.serve(console.router(), stop).await;
        Ok(0)
    }
}

/// Whoever can reach it could do everything: any address but this host's own needs tokens, and encryption or a proxy that does that.
fn refuse_open(address: SocketAddr, config: &Config) -> Result<(), Failure> {
    let serve = &config.serve;
    if serve.behind_proxy && serve.tokens.is_empty() {
        return Err(Failure::usage(
            "serve.behind_proxy: needs serve.tokens, or everybody who reaches the proxy may do everything",
        ));
    }
    if address.ip().is_loopback() {
        return Ok(());
    }
    let missing = match (serve.tokens.is_empty(), serve.tls.is_none() && !serve.behind_proxy) {
        (true, _) => "serve.tokens",
        (_, true) => "serve.tls, or serve.behind_proxy = true if a proxy in front of it encrypts",
        _ => return Ok(()),
    };
    Err(Failure::usage(format!("serve.listen: {address} is not a loopback address; it needs {missing}")))
}

/// The console of this configuration.
fn console<S: Backend>(store: S, config: &Config, parts: Parts) -> Result<Console, Failure> {
    let brokers = AtBrokers::new(store.clone(), config.clone());
    let settings = settings(&store, config, parts);
    let secure = config.serve.tls.is_some() || config.serve.behind_proxy;
    let mut builder = Console::builder(store)
        .queues(config.queues.keys())
        .mask(program::masks(config))
        .brokers(brokers)
        .secure(secure)
        .settings(settings);
    for lanes in targets(config) {
        builder = builder.lanes(lanes.set, lanes.targets);
    }
    for (at, token) in config.serve.tokens.iter().enumerate() {
        let role = match token.role {
            ServeRole::Read => Role::Read,
            ServeRole::Operate => Role::Operate,
            ServeRole::Admin => Role::Admin,
        };
        let made = Token::new(&token.name, role, &token.token);
        builder = builder.token(made.map_err(|error| Failure::usage(format!("serve.tokens[{at}]: {error}")))?);
    }
    Ok(builder.build())
}

/// What is configured, without secrets.
fn settings<S: Backend>(store: &S, config: &Config, parts: Parts) -> Settings {
    let mut settings = Settings::default();
    let mut lines = in_force::lines(config, &program::masks(config), &[]);
    lines.extend(places::lines(config));
    settings.config = Some(lines.join("\n"));
    settings.warnings.extend(program::few_connections(config));
    settings.warnings.extend(program::masked_keys(config));
    settings.warnings.extend(crate::warnings::about_connections(store, config));
    settings.warnings.extend(crate::warnings::about_brokers(config));
    settings.lease = Some(config.process.lease);
    settings.workers = config.actions.values().map(|action| (action.from.clone(), action.concurrency)).collect();
    settings.chains = chains(store, config, parts);
    settings
}

/// The handler queues; none if this program has not all actions of the configuration.
fn chains<S: Backend>(store: &S, config: &Config, parts: Parts) -> Vec<Chain> {
    let queues = parts.program().and_then(|own| {
        let process = program::process(store.clone(), config, own, &Brokers::of(config)?)?;
        process.handler_queues().map_err(|error| Failure::of::<S>(&error))
    });
    let Ok(HandlerQueues { common, own }) = queues else { return Vec::new() };
    let own = own.iter().map(|(action, queue)| chain(Some(action.to_string()), queue));
    [chain(None, &common)].into_iter().chain(own).collect()
}

fn chain<S: Backend>(action: Option<String>, queue: &HandlerQueue<S>) -> Chain {
    let links = queue.about().map(|(scope, about)| ChainLink {
        handler: about.name.into_owned(),
        scope: scope.to_string(),
        way_in: about.way_in.to_owned(),
        way_out: about.way_out.to_owned(),
        on_error: about.on_error.to_owned(),
    });
    Chain { action, links: links.collect() }
}
