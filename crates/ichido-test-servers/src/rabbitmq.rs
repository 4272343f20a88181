//! A private RabbitMQ for tests: one node, all of it in a temporary folder,
//! gone when the test process is. Fault tests start one of their own, which
//! they may stop, kill and start again. Talks to its guardian, and to the node
//! through `erl_call` only.
//!
//! Erlang's own port mapper is not used, neither the machine's nor one of our
//! own: the node listens for `erl_call` and for the other nodes of its cluster
//! on a port that it is told. Its name ends with its address, so that no host
//! names of the machine matter.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use uuid::Uuid;

use super::guardian::Guardian;
use super::port::free_port;
use super::processes::plain_environment;
use super::programs::folder_with;
use super::rabbitmq_modules::load_at_once;
use super::starting::{Seat, Starting, lines, server};

/// Whatever is confirmed is on disk, as RabbitMQ always does it.
const SETTINGS: [(&str, &str); 7] = [
    ("loopback_users", "none"),
    ("default_user", USER),
    ("default_pass", PASSWORD),
    // The test's machine may be nearly full of other things.
    ("disk_free_limit.absolute", "1MB"),
    ("log.console", "true"),
    ("log.console.level", "info"),
    ("log.file", "false"),
];

/// So often it is looked for queues without a leader.
const MOST_ELECTIONS: usize = 20;

const USER: &str = "ichido";
const PASSWORD: &str = "once";

/// Two schedulers that sleep when there is nothing to do, for many nodes run
/// beside each other; and quorum queues that count themselves soon, for tests look.
const MACHINE: &str = "+S 2:2 +A 2 +SDio 2 +sbwt none +sbwtdcpu none +sbwtdio none -rabbit quorum_tick_interval 200";

/// A port at which no port mapper answers.
const NOBODY: u16 = 1;

/// Erlang: how many messages are ready in the queue `Q`, times a million, and how many are unacknowledged. A quorum queue is asked itself:
/// what the node has counted of it is as old as the last tick of its leader, and after a crash there may be none for minutes. While
/// it has no leader, the node's count is all there is, and it is told to elect one, as an operator would do: RabbitMQ 3.10.8 sometimes does not,
/// after a crash or on a very busy machine, and then nothing that is published to it is ever confirmed.
pub const DEPTH: &str = "Told = fun() -> \
     [{_, R}, {_, U}] = rabbit_amqqueue:info(Q, [messages_ready, messages_unacknowledged]), R * 1000000 + U end, \
     case amqqueue:get_type(Q) of rabbit_quorum_queue -> \
     case ra:leader_query(amqqueue:get_pid(Q), fun rabbit_fifo:overview/1) of \
     {ok, {_, #{num_ready_messages := Ready, num_checked_out := Out}}, _} -> Ready * 1000000 + Out; \
     _ -> case ra:members(amqqueue:get_pid(Q), 300) of {ok, _, _} -> ok; _ -> catch ra:trigger_election(amqqueue:get_pid(Q)) end, \
     Told() end; _ -> Told() end";

/// A RabbitMQ node of this test process.
#[derive(Debug)]
pub struct RabbitMq {
    programs: Programs,
    seat: Seat,
    place: Place,
    settings: String,
    /// Where `erl_call` finds it; another one at each start if it is alone.
    control: AtomicU16,
    /// It stands still, and answers nobody.
    frozen: AtomicBool,
}

/// Where a node is, and what it needs to know of its cluster.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) address: Ipv4Addr,
    pub(super) cookie: String,
    /// Where every node of a cluster listens for the others.
    pub(super) control: Option<u16>,
    /// The port of the management API, for a node that has it.
    pub(super) management: Option<u16>,
}

impl RabbitMq {
    /// Starts a node of one's own; `extra_settings` are lines of
    /// `rabbitmq.conf`, after the defaults.
    ///
    /// # Panics
    ///
    /// If RabbitMQ is not installed or does not start.
    #[must_use]
    pub fn start(extra_settings: &[(&str, &str)]) -> Self {
        Self::start_at(Place::alone(None), extra_settings)
    }

    /// Starts a node of one's own with the management API.
    ///
    /// # Panics
    ///
    /// If RabbitMQ is not installed or does not start.
    #[must_use]
    pub fn start_managed(extra_settings: &[(&str, &str)]) -> Self {
        Self::start_at(Place::alone(Some(free_port())), extra_settings)
    }

    pub(super) fn start_at(place: Place, extra_settings: &[(&str, &str)]) -> Self {
        let programs = Programs::find();
        // KILL: it has nothing but its folder, which is removed anyway.
        let guardian = Guardian::new("rabbitmq", "rabbitmq", "KILL");
        let settings = lines(SETTINGS.iter().chain(extra_settings));
        let seat = Seat { ip: place.address, ..Seat::new(guardian) };
        let mut node =
            Self { programs, seat, place, settings, control: AtomicU16::new(0), frozen: AtomicBool::new(false) };
        node.start_on_a_free_port();
        node
    }

    /// The URL of the management API.
    ///
    /// # Panics
    ///
    /// If it was started without.
    #[must_use]
    pub fn management_url(&self) -> String {
        let port = self.place.management.expect("started with the management API");
        format!("http://{USER}:{PASSWORD}@{}:{port}", self.place.address)
    }

    pub(super) fn cookie(&self) -> &str {
        &self.place.cookie
    }

    /// Its name among Erlang's nodes.
    #[must_use]
    pub fn name(&self) -> String {
        format!("ichido@{}", self.place.address)
    }

    /// The last lines of its log, for a test that fails.
    #[must_use]
    pub fn last_words(&self) -> String {
        let log = fs::read(self.folder().join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        format!("{}:\n{}", self.name(), lines[lines.len().saturating_sub(60)..].join("\n"))
    }

    /// The URL of a vhost.
    #[must_use]
    pub fn url(&self, vhost: &str) -> String {
        format!("amqp://{USER}:{PASSWORD}@{}/{vhost}", self.address())
    }

    /// Creates an empty vhost with a name of its own and returns its URL.
    ///
    /// # Panics
    ///
    /// If the node refuses.
    #[must_use]
    pub fn fresh_vhost(&self) -> String {
        let name = format!("ichido_{}", Uuid::now_v7().simple());
        let done = self.eval(&format!(
            r#"ok = rabbit_vhost:add(<<"{name}">>, <<"{USER}">>), rabbit_auth_backend_internal:set_permissions(<<"{USER}">>, <<"{name}">>, <<".*">>, <<".*">>, <<".*">>, <<"{USER}">>)"#,
        ));
        assert_eq!(done, "ok", "a vhost");
        self.url(&name)
    }

    /// Deletes a vhost with all its queues, for whoever has ended: hundreds of quorum queues that nobody needs any more would
    /// keep the node busy. A node that does not answer keeps it.
    pub fn delete_vhost(&self, url: &str) {
        if let Some((_, name)) = url.rsplit_once('/') {
            drop(self.ask(&format!(r#"rabbit_vhost:delete(<<"{name}">>, <<"{USER}">>)"#)));
        }
    }

    /// Evaluates Erlang in the node, from outside the code under test, and returns the value as Erlang prints it.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn eval(&self, erlang: &str) -> String {
        let answer = self.ask(erlang).unwrap_or_else(|error| panic!("erl_call: {erlang}\n{error}"));
        let value = answer.strip_prefix("{ok, ").and_then(|rest| rest.strip_suffix('}'));
        value.unwrap_or_else(|| panic!("RabbitMQ: {erlang}\n{answer}")).to_owned()
    }

    /// Raises its memory alarm (publishers are blocked), or ends it. Returns when the alarm is set or gone.
    ///
    /// # Panics
    ///
    /// If the node refuses.
    pub fn memory_alarm(&self, raised: bool) {
        let change = if raised { "set_alarm" } else { "clear_alarm" };
        let alarm = "{resource_limit, memory, node()}";
        let alarm = if raised { format!("{{{alarm}, []}}") } else { alarm.to_owned() };
        self.eval(&format!("rabbit_alarm:{change}({alarm}), length(rabbit_alarm:get_alarms())"));
    }

    /// Lets its process stand still, with its connections open. After that it can only be killed: other nodes have given it
    /// up, and RabbitMQ does not always join them again by itself.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub(super) fn freeze(&self) {
        self.frozen.store(true, Ordering::Relaxed);
        self.seat.guardian.freeze();
    }

    pub(super) fn ask(&self, erlang: &str) -> Result<String, String> {
        let mut call = Command::new(&self.programs.erl_call);
        plain_environment(&mut call);
        let control = format!("{}:{}", self.place.address, self.control.load(Ordering::Relaxed));
        // With a name of its own: of two callers with one name the node refuses the second.
        let caller = Uuid::now_v7().simple().to_string();
        call.args(["-address", &control, "-c", &self.place.cookie, "-h", &caller, "-e"]);
        call.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut call = call.spawn().expect("erl_call");
        // One that cannot connect does not read.
        drop(call.stdin.take().expect("piped").write_all(format!("{erlang}.\n").as_bytes()));
        let output = call.wait_with_output().expect("erl_call");
        let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// The file is written before each start, for the port may be another one.
    fn write_settings(&self) {
        let (address, settings) = (self.place.address, &self.settings);
        let mut lines = format!("listeners.tcp.1 = {address}:{}\n{settings}", self.seat.port);
        let mut plugins = "[].\n";
        if let Some(port) = self.place.management {
            writeln!(lines, "management.tcp.ip = {address}\nmanagement.tcp.port = {port}").expect("to a string");
            plugins = "[rabbitmq_management].\n";
        }
        fs::write(self.folder().join("rabbitmq.conf"), lines).expect("the settings' file");
        fs::write(self.folder().join("enabled_plugins"), plugins).expect("the plugins' file");
    }

    /// Everything in its folder, nothing from the machine's own settings.
    fn environment(&self) -> Vec<String> {
        let folder = self.folder().to_str().expect("a path in UTF-8");
        let (name, cookie, control) = (self.name(), &self.place.cookie, self.control.load(Ordering::Relaxed));
        let interface = self.place.address.to_string().replace('.', ",");
        let distribution = format!(
            "-noinput -name {name} -setcookie {cookie} -erl_epmd_port {control} \
             -kernel inet_dist_use_interface {{{interface}}}",
        );
        vec![
            format!("RABBITMQ_CONF_ENV_FILE={folder}/no-such-file"),
            format!("RABBITMQ_CONFIG_FILE={folder}/rabbitmq"),
            format!("RABBITMQ_ENABLED_PLUGINS_FILE={folder}/enabled_plugins"),
            format!("RABBITMQ_MNESIA_BASE={folder}/data"),
            format!("RABBITMQ_LOG_BASE={folder}"),
            "RABBITMQ_LOGS=-".to_owned(),
            format!("RABBITMQ_NODENAME={name}"),
            "RABBITMQ_USE_LONGNAME=true".to_owned(),
            format!("RABBITMQ_SERVER_ERL_ARGS={MACHINE}"),
            format!("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS={distribution}"),
            format!("ERL_AFLAGS=-eval {}", load_at_once(self.place.management.is_some())),
            // Once a minute the node would start the port mapper, and tell it its name.
            "ERL_FLAGS=-start_epmd false".to_owned(),
            format!("ERL_EPMD_PORT={NOBODY}"),
            // Its script becomes the node, instead of waiting for it.
            "RABBITMQ_ALLOW_INPUT=1".to_owned(),
        ]
    }
}

impl Place {
    fn alone(management: Option<u16>) -> Self {
        Self { address: Ipv4Addr::LOCALHOST, cookie: cookie(), control: None, management }
    }
}

/// What the nodes of a cluster know each other by, and their callers.
pub(super) fn cookie() -> String {
    Uuid::now_v7().simple().to_string()
}

server!(RabbitMq, Self::start(&[]));

impl Starting for RabbitMq {
    const NAME: &'static str = "RabbitMQ";
    const PORT_TAKEN: &'static str = "eaddrinuse";
    const STOP: &'static str = "TERM";

    fn launch(&self) -> u32 {
        self.control.store(self.place.control.unwrap_or_else(free_port), Ordering::Relaxed);
        self.write_settings();
        let environment = self.environment();
        let server = self.programs.server.to_str().expect("a path in UTF-8");
        let words: Vec<&str> = environment.iter().map(String::as_str).chain([server]).collect();
        self.seat.guardian.start(Path::new("env"), &words)
    }

    /// It writes the names of new quorum queues twice a second. One that it does not find there after a crash RabbitMQ 3.10.8 starts without all
    /// that makes it work: its messages reach nobody, neither consumers nor the queue for dead letters.
    fn brace(&self) {
        if !self.frozen.swap(false, Ordering::Relaxed) {
            let _ = self.ask("[dets:sync(Table) || Table <- dets:all()]");
        }
    }

    /// RabbitMQ 3.10.8 sometimes comes back from a crash with a quorum queue that has no leader and never will
    /// (rabbitmq-server issue 10070). Then an operator makes it elect one, and so do we.
    fn mend(&self) {
        let without = "length([Q || Q <- rabbit_amqqueue:list(), amqqueue:get_type(Q) =:= rabbit_quorum_queue, \
             element(1, ra:members(amqqueue:get_pid(Q), 300)) =/= ok andalso \
             begin ra:trigger_election(amqqueue:get_pid(Q)), true end])";
        for _ in 0..MOST_ELECTIONS {
            if self.ask(without).is_ok_and(|without| without == "{ok, 0}") {
                return;
            }
        }
    }

    /// The process matters: with another node's cookie nobody would answer, but one that is ending might.
    fn is_ready(&self, pid: u32) -> bool {
        let ready = self.ask("{os:getpid(), rabbit_boot_state:get()}");
        ready.is_ok_and(|ready| ready == format!(r#"{{ok, {{"{pid}", ready}}}}"#))
    }
}

#[derive(Debug)]
struct Programs {
    server: PathBuf,
    erl_call: PathBuf,
}

impl Programs {
    fn find() -> Self {
        // Not the program of the same name in PATH, which changes the user and the folder.
        let server = folder_with(&["rabbitmq-server", "rabbitmq-env"], vec!["/usr/lib/rabbitmq/bin".into()]);
        let erlang = folder_with(&["erl_call", "erl"], Vec::new());
        let found = server
            .zip(erlang)
            .map(|(server, erlang)| Self { server: server.join("rabbitmq-server"), erl_call: erlang.join("erl_call") });
        found.expect(
            "this test needs RabbitMQ, which is not installed: \
             run ./test, which installs it, or: apt-get install rabbitmq-server",
        )
    }
}
