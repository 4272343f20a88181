//! A server that says nothing any more: open connections are silent, as when its host has lost power and its address has moved, and
//! new ones work. The work goes on, exact, and no message pays for it; a process can be stopped meanwhile; a command does not wait
//! for ever. On both servers.

use std::time::{Duration, Instant};

use ichido_test_servers::proxy::{Proxy, Silence, Whom};
use ichido_testkit::{eventually, in_time, size};

use crate::testenv::{Env, Kind, Process};

on_servers!(
    work_goes_on_after_silence_at_any_step,
    a_process_can_be_stopped_in_the_middle_of_silence,
    a_command_does_not_wait_for_a_silent_server,
);

const RUN: &[&str] = &["run", "ProjectCreation/R1"];

/// How long a server may be silent, and how long a process without a heartbeat.
const TIMEOUT: Duration = Duration::from_secs(2);
const LEASE: Duration = Duration::from_secs(6);

/// How a message in the middle of silence may end.
const GRACE: Duration = Duration::from_secs(3);

/// What a process says then: of a statement of ichido's own, and of one of the action's.
const WORDS: [&str; 2] = ["did not answer within", "a statement or its answer was lost"];

/// A step of a message or of a process, and the statement that is it.
struct Step {
    name: &'static str,
    pattern: &'static str,
    /// The how manieth of them.
    nth: u32,
}

const CLAIM: &str = "%received_order%skip locked%";
const ACTION: &str = "insert into project%";
const COMPLETION: &str = "update%received_order%set%status%= '1'%";
const COMMIT: &str = "commit%";
const PARK: &str = "insert into%ichido_parked%";
const HEARTBEAT: &str = "update%ichido_process%heartbeat_at%";

/// Those after the heartbeat show that it came back.
const STEPS: [Step; 6] = [
    Step { name: "heartbeat", pattern: HEARTBEAT, nth: 1 },
    Step { name: "claim", pattern: CLAIM, nth: 2 },
    Step { name: "the action's statement", pattern: ACTION, nth: 7 },
    Step { name: "completion", pattern: COMPLETION, nth: 9 },
    Step { name: "COMMIT", pattern: COMMIT, nth: 11 },
    Step { name: "park", pattern: PARK, nth: 1 },
];

/// Keeps each attempt that is counted, also if its message is done in the end. What is poisoned fails.
const LEDGER: &str = "create table spent (attempts integer);
alter table project add constraint healthy check (name <> 'poison');
";

const LEDGER_ON_POSTGRES: &str = "create function spend() returns trigger language plpgsql as
$$ begin insert into spent values (new.attempts); return new; end $$;
create trigger first_attempt after insert on ichido_parked for each row when (new.attempts > 0) execute function spend();
create trigger attempt after update on ichido_parked for each row when (new.attempts > old.attempts) execute function spend();
";

const LEDGER_ON_MARIADB: &str = "create trigger first_attempt after insert on ichido_parked for each row
    insert into spent select new.attempts from dual where new.attempts > 0;
create trigger attempt after update on ichido_parked for each row
    insert into spent select new.attempts from dual where new.attempts > old.attempts;
";

/// Two processes of four workers behind a proxy, and what they have done.
struct Scene {
    processes: [Process; 2],
    env: Env,
    proxy: Proxy,
    /// Orders so far.
    orders: u32,
    /// How much of each log has been looked at.
    read: [usize; 2],
}

impl Scene {
    /// On PostgreSQL silence begins with the first LISTEN already.
    async fn new(kind: Kind) -> Self {
        let env = Env::new(kind).await;
        env.sql(LEDGER).await;
        env.sql(if kind == Kind::MariaDb { LEDGER_ON_MARIADB } else { LEDGER_ON_POSTGRES }).await;
        let proxy = behind_a_proxy(&env);
        if kind == Kind::Postgres {
            proxy.silence_at(Silence::Both, Whom::Everyone, "listen%", 1);
        }
        let processes = ["one", "two"].map(|name| env.start(name, RUN));
        if kind == Kind::Postgres {
            in_time("somebody listens", proxy.silenced()).await;
        }
        let mut scene = Scene { env, proxy, processes, orders: 0, read: [0; 2] };
        scene.round("LISTEN, if there is one", Silence::Both, |_| ()).await;
        scene
    }

    /// New orders, of which some are on their way when silence begins; all are done in the end, and nobody has paid.
    async fn round(&mut self, step: &str, silence: Silence, begin: impl FnOnce(&Proxy)) {
        let new = size(60, 400);
        let (first, last) = (self.orders + 1, self.orders + new);
        self.orders = last;
        // Nothing moves meanwhile, so that what is counted is about these orders.
        self.proxy.hold();
        self.env.sql(&orders(first..=last, (step == "park").then_some(first + 5))).await;
        begin(&self.proxy);
        self.proxy.resume();
        let since = Instant::now();
        let failing = i64::from(step == "park");
        self.env.until("select count(*) from received_order where status = '1'", i64::from(last) - failing).await;
        let took = since.elapsed();
        println!("{:?}: {silence:?} at {step}: all done after {took:?}", self.env.kind);
        // Time itself, at the full size, which has the machine to itself.
        assert!(size(0, 1) == 0 || took < TIMEOUT + LEASE + Duration::from_secs(5), "{step}: {took:?}");
    }

    async fn falls_silent(&mut self, step: &Step, silence: Silence) {
        let before = self.env.number("select count(*) from spent").await;
        self.round(step.name, silence, |proxy| proxy.silence_at(silence, Whom::Everyone, step.pattern, step.nth)).await;
        in_time(format!("silence at {}", step.name), self.proxy.silenced()).await;
        if step.name == "park" {
            self.poisoned().await;
        } else {
            let spent = self.env.number("select count(*) from spent").await - before;
            assert_eq!(spent, 0, "attempts spent by silence at {}", step.name);
        }
        self.env.assert_exact(self.orders.into()).await;
        assert_eq!(self.env.number("select count(*) from ichido_parked").await, 0, "{}", step.name);
        self.assert_said(step.name).await;
    }

    /// The order that fails has had its three attempts, each counted once, and runs again by hand.
    async fn poisoned(&self) {
        self.env.until("select count(*) from received_order where status = '2'", 1).await;
        for attempts in ["count(*)", "count(distinct attempts)"] {
            assert_eq!(self.env.number(&format!("select {attempts} from spent")).await, 3, "{attempts}");
        }
        self.env.sql("delete from spent; update received_order set name = 'healthy' where name = 'poison'").await;
        self.env.ok(&["failed", "retry", "--all"]).await;
        self.env.until("select count(*) from received_order where status = '1'", self.orders.into()).await;
    }

    /// The logs since the last look say what happened.
    async fn assert_said(&mut self, step: &str) {
        let news = || [0, 1].map(|at| self.processes[at].log().split_off(self.read[at]));
        let said = eventually(format!("a word about {step}"), async || {
            let news = news();
            if WORDS.iter().any(|word| news.concat().contains(word)) { Ok(news) } else { Err(news.join("\n")) }
        });
        for (at, news) in said.await.into_iter().enumerate() {
            for word in ["panicked", "rescued the messages"] {
                assert!(!news.contains(word), "{step}: {news}");
            }
            self.read[at] += news.len();
        }
    }
}

fn behind_a_proxy(env: &Env) -> Proxy {
    env.slow_down(20);
    let proxy = env.kind.proxy();
    env.reconfigure(|config| {
        let url = format!("{}\"\ntimeout = \"{TIMEOUT:?}", proxy.url(&env.url));
        let process = format!("lease = \"{LEASE:?}\"\ngrace = \"{GRACE:?}\"");
        config.replace(&env.url, &url).replace("lease = \"1s\"", &process)
    });
    proxy
}

fn orders(ids: impl IntoIterator<Item = u32>, poisoned: Option<u32>) -> String {
    let name = |id: &u32| if Some(*id) == poisoned { "poison".to_owned() } else { format!("order {id}") };
    let rows: Vec<_> = ids.into_iter().map(|id| format!("({id}, '{}')", name(&id))).collect();
    format!("insert into received_order (id, name) values {}", rows.join(", "))
}

async fn work_goes_on_after_silence_at_any_step(kind: Kind) {
    let mut scene = Scene::new(kind).await;
    for (at, step) in STEPS.iter().enumerate() {
        // In the small size they take turns, and COMMIT has both.
        let turns = [Silence::Answers, Silence::Both];
        let both = size(0, 1) == 1 || step.name == "COMMIT";
        for silence in if both { &turns[..] } else { &turns[at % 2..=at % 2] } {
            scene.falls_silent(step, *silence).await;
        }
    }
    for process in &mut scene.processes {
        process.stop().await;
    }
}

async fn a_process_can_be_stopped_in_the_middle_of_silence(kind: Kind) {
    let env = Env::new(kind).await;
    let proxy = behind_a_proxy(&env);
    // Nobody notices the silence before the grace is over.
    env.reconfigure(|config| config.replace(&format!("timeout = \"{TIMEOUT:?}\""), "timeout = \"1m\""));
    let mut last = 0;
    let steps = [(COMMIT, 9), (ACTION, 9), (CLAIM, 2), (HEARTBEAT, 1)];
    let both = [Silence::Both, Silence::Answers];
    // In the small size each step has one of the four; nor do new connections get an answer in some of them.
    let cases = (0..16_usize).map(|at| (steps[at / 4], both[at % 2], at % 4 > 1));
    for ((pattern, nth), silence, all) in cases.step_by(size(5, 1) as usize) {
        let mut process = env.start(&format!("{pattern}{silence:?}{all}").replace(['%', ' '], "_"), RUN);
        process.until_logged("process starts").await;
        proxy.hold();
        env.sql(&orders(last + 1..=last + 40, None)).await;
        last += 40;
        proxy.silence_at(silence, Whom::Everyone, pattern, nth);
        proxy.resume();
        in_time("silence", proxy.silenced()).await;
        if all {
            proxy.hold();
        }
        let since = Instant::now();
        process.signal("-TERM").await;
        assert_eq!(process.exit_code().await, 0, "{}", process.log());
        let took = since.elapsed();
        println!("{kind:?}: {silence:?} at {pattern}, new connections too {all}: ended after {took:?}");
        // Time itself, at the full size, which has the machine to itself.
        assert!(took < size(60, 1) * GRACE + Duration::from_secs(2), "{took:?}: {}", process.log());
        proxy.sever_all();
        proxy.resume();
    }
    env.ok(&["run", "ProjectCreation/R1", "--drain"]).await;
    env.assert_exact(last.into()).await;
}

async fn a_command_does_not_wait_for_a_silent_server(kind: Kind) {
    let env = Env::new(kind).await;
    let proxy = behind_a_proxy(&env);
    let once = "count = 1, interval = \"200ms\"";
    env.reconfigure(|config| config.replace("count = 20, interval = \"200ms\"", once));
    proxy.hold();
    let address = proxy.address().to_string();
    for args in [&["status"][..], &["send", "mail", "{}"], &["failed", "list"], &["check"], &["health", "R1"]] {
        let since = Instant::now();
        let ended = env.run(args).await;
        println!("{kind:?}: {args:?} ended after {:?}: {}", since.elapsed(), ended.stderr);
        ended.assert_refused(20, &[&address, "did not answer within 2s"]);
    }
    let since = Instant::now();
    let drained = env.run(&["run", "ProjectCreation/R1", "--drain"]).await;
    println!("{kind:?}: run --drain ended after {:?}: {}", since.elapsed(), drained.stderr);
    assert_eq!(drained.code, Some(180), "{drained:?}");
    assert!(drained.stderr.contains(WORDS[0]) && drained.stderr.contains(&address), "{drained:?}");
}
