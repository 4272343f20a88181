//! `ichido adopt`: what is missing to make a table a queue. It inspects, proposes and explains; only with `--apply` it adds the
//! owner column and the index to the table, and the queue to the configuration.

use std::path::Path;

use ichido::{
    Table,
    adopt::{Counts, FoundTable, Guess, Proposal, Values, Wanted, find, named_table, propose},
};
use serde::Serialize;

use crate::{
    args::Adopt,
    config::{Config, Draft, QueueKind, TableName, action_lines, queue_lines},
    failure::Failure,
    logging,
    open::{Backend, OnStore, on_store},
    output,
};

/// The longest name of a queue.
const LONGEST_NAME: usize = 64;

/// Runs the command; the configuration may lack the queue, or not be there at all.
pub(crate) async fn run(
    adopt: Adopt,
    path: &Path,
    url: Option<&str>,
    (verbose, quiet): (u8, bool),
) -> Result<u8, Failure> {
    let table = TableName::parse(&adopt.table).map_err(|text| Failure::usage(format!("--table: {text}")))?;
    let draft = Draft::open(path, url, |name| std::env::var(name).ok())?;
    let queue = adopt.queue.clone().unwrap_or_else(|| queue_name(&table.name));
    let mut config = draft.config(&queue)?;
    if let Some(url) = url {
        config.override_url(url, "--database-url")?;
    }
    logging::start(&config.log, &config.telemetry, verbose, quiet)?;
    Box::pin(on_store(&config, Adoption { adopt, table, queue, draft })).await
}

/// A name for the queue of a table.
fn queue_name(table: &str) -> String {
    let name = table.to_lowercase();
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let name = name.trim_matches('_');
    match name.chars().next() {
        None => "queue".to_owned(),
        Some(first) if first.is_ascii_alphabetic() => name.chars().take(LONGEST_NAME).collect(),
        Some(_) => format!("q{name}").chars().take(LONGEST_NAME).collect(),
    }
}

/// What the file says already is changed there, not here.
fn refuse_other(adopt: &Adopt, known: &Table, at: &str) -> Result<(), Failure> {
    let status = &known.status;
    for (flag, key, given, said) in [
        ("--status", "status.column", &adopt.status, Some(&status.column)),
        ("--owner", "owner", &adopt.owner, Some(&known.owner)),
        ("--new", "status.new", &adopt.new, Some(&status.new)),
        ("--done", "status.done", &adopt.done, status.done.as_ref()),
        ("--failed", "status.failed", &adopt.failed, status.failed.as_ref()),
    ] {
        if given.is_some() && given.as_ref() != said {
            let said = said.map_or("not set".to_owned(), |said| format!("`{said}`"));
            return Err(Failure::usage(format!("{flag}: {at}.{key} is {said}; change it there")));
        }
    }
    Ok(())
}

struct Adoption {
    adopt: Adopt,
    table: TableName,
    queue: String,
    draft: Draft,
}

impl Adoption {
    /// What is asked for, with the queue that the table is already, if it is one: its lines in the file are not changed.
    async fn wanted<S: Backend>(&self, store: &S, config: &Config) -> Result<Wanted, Failure> {
        let of = |error| Failure::of::<S>(&error);
        let table = find(store, self.table.schema.as_deref(), &self.table.name).await.map_err(of)?;
        let (adopt, file) = (&self.adopt, self.draft.path().display());
        let mut queue = self.queue.clone();
        let known = match known(store, config, &table).await.map_err(of)? {
            Some((name, _)) if adopt.queue.is_some() && name != queue => {
                let text = format!("--queue: the table `{}` is already the queue `{name}` in {file}", table.name);
                return Err(Failure::usage(text));
            }
            Some((name, mapping)) => {
                refuse_other(adopt, &mapping, &format!("{file}: queues.{name}"))?;
                queue = name;
                Some(mapping)
            }
            None if config.queues.contains_key(&queue) => {
                let text = format!(
                    "--queue: {file} already has a queue `{queue}` for something else; choose another name with --queue"
                );
                return Err(Failure::usage(text));
            }
            None => None,
        };
        let Adopt { status, owner, new, done, failed, .. } = adopt.clone();
        Ok(Wanted { queue, table, status, owner, new, done, failed, known })
    }
}

/// The queue of the configuration whose table this is.
async fn known<S: Backend>(
    store: &S,
    config: &Config,
    table: &FoundTable,
) -> ichido::error::Result<Option<(String, Table)>> {
    for (name, queue) in &config.queues {
        if let QueueKind::Table(known) = &queue.kind {
            let tables = store.tables(known.schema.as_deref()).await?;
            if named_table(&known.name, &tables).is_some_and(|found| found.id == table.id) {
                return Ok(Some((name.clone(), Table::clone(known))));
            }
        }
    }
    Ok(None)
}

/// What `adopt --json` prints.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    proposal: Proposal,
    /// What the configuration lacks; empty if it has the queue.
    config: String,
    applied: bool,
}

impl OnStore for Adoption {
    async fn run<S: Backend>(self, store: S, config: &Config) -> Result<u8, Failure> {
        let wanted = self.wanted(&store, config).await?;
        let proposal = propose(&store, &wanted).await.map_err(|error| Failure::of::<S>(&error))?;
        let mut lines = String::new();
        if wanted.known.is_none() {
            lines = queue_lines(&proposal);
            if !config.actions.values().any(|action| action.from == proposal.queue) {
                lines = format!("{lines}\n{}", action_lines(&proposal));
            }
            self.draft.check(&lines)?;
        }
        let mut report = Report { proposal, config: lines, applied: self.adopt.apply };
        if self.adopt.apply {
            self.apply(&store, &mut report).await?;
        }
        if self.adopt.json {
            output::json(&report)?;
            return Ok(0);
        }
        // Names and values of the database must not change the terminal.
        for line in findings(&report) {
            output::talk(&line);
        }
        print(&report)?;
        conclude(&report, &self.draft);
        Ok(0)
    }
}

impl Adoption {
    /// The table first: a file that names what is not there would stop every command.
    async fn apply<S: Backend>(&self, store: &S, report: &mut Report) -> Result<(), Failure> {
        let of = |error| Failure::of::<S>(&error);
        let proposal = &mut report.proposal;
        refuse_guesses(proposal)?;
        for statement in &proposal.claim.ddl {
            output::talk(&format!("running {statement}"));
            store.apply(std::slice::from_ref(statement)).await.map_err(of)?;
        }
        let after = store.claim_plan(&proposal.queue, &proposal.mapping, true).await.map_err(of)?;
        (proposal.claim.steps, proposal.claim.by_index) = (after.steps, after.by_index);
        if report.config.is_empty() {
            return Ok(());
        }
        let file = self.draft.path().display();
        let unwritten =
            |error| Failure::found(format!("{file}: cannot write file: {error}; the table is changed already"));
        self.draft.append(&report.config).map_err(unwritten)
    }
}

/// What is only a guess is not applied.
fn refuse_guesses(proposal: &Proposal) -> Result<(), Failure> {
    if let Some(doubt) = &proposal.owner.doubt {
        let text =
            "if another program works on these rows, stop it first; then choose that column or a new one with --owner";
        return Err(Failure::usage(format!("--apply: {doubt}; {text}")));
    }
    let Some((name, guess)) = proposal.status.values.iter().flat_map(Values::unsure).next() else { return Ok(()) };
    Err(Failure::usage(format!(
        "--apply: it is only a guess that `{}` means {name} ({}; {}); say which values are meant with --new and --done, \
         and with --failed if failed rows get one; nothing was changed",
        guess.value,
        guess.why,
        counted(&proposal.status.counts)
    )))
}

fn counted(counts: &Counts) -> String {
    let one = |(value, count): &(Option<String>, u64)| match value {
        Some(value) => format!("`{}` {count}", output::shortened(value, 40)),
        None => format!("null {count}"),
    };
    let values = counts.values.iter().map(one).collect::<Vec<_>>().join(", ");
    match (counts.values.is_empty(), counts.all) {
        (true, _) => "no rows".to_owned(),
        (_, true) => format!("{values} (all rows)"),
        (_, false) => format!("{values} (in the first and last {} rows by key)", counts.rows / 2),
    }
}

/// What was found, for people.
fn findings(report: &Report) -> Vec<String> {
    let Proposal { table, key, status, owner, claim, notes, .. } = &report.proposal;
    let mut lines = vec![
        format!("table   {}, key ({})", table.name, key.join(", ")),
        format!("status  {}: {}", status.column, counted(&status.counts)),
    ];
    lines.extend(status.values.iter().flat_map(meanings));
    let added = match (owner.there, report.applied) {
        (true, _) => "exists",
        (false, true) => "was added",
        (false, false) => "is missing; --apply adds it",
    };
    lines.push(format!("owner   {} {added}", owner.column));
    lines.extend(owner.doubt.iter().map(|doubt| format!("        {doubt}  <- check this")));
    lines.extend(claim.steps.iter().map(|step| format!("claim   {step}")));
    let index = if claim.by_index { "an index covers" } else { "no index covers" };
    lines.push(format!("        {index} the claimable rows in claim order"));
    lines.extend(notes.iter().map(|note| format!("note    {note}")));
    lines
}

/// What the values mean, and why.
fn meanings(values: &Values) -> [String; 3] {
    let line = |name: &str, guess: &Guess| {
        let look = if guess.sure { "" } else { "  <- check this" };
        format!("        {name:6}  `{}`: {}{look}", output::shortened(&guess.value, 40), guess.why)
    };
    let none = || {
        "        failed  none: failed rows keep the status new, out of circulation; --failed sets a value".to_owned()
    };
    let failed = values.failed.as_ref().map_or_else(none, |failed| line("failed", failed));
    [line("new", &values.new), line("done", &values.done), failed]
}

/// The lines and statements that are missing, or were until now.
fn print(report: &Report) -> Result<(), Failure> {
    if !report.config.is_empty() {
        output::print(report.config.trim_end())?;
    }
    if !report.config.is_empty() && !report.proposal.claim.ddl.is_empty() {
        output::print("")?;
    }
    report.proposal.claim.ddl.iter().try_for_each(|statement| output::print(&format!("{statement};")))
}

fn conclude(report: &Report, draft: &Draft) {
    let (queue, file) = (&report.proposal.queue, draft.path().display());
    if report.config.is_empty() && report.proposal.claim.ddl.is_empty() {
        output::talk(&format!("nothing is missing: the table is the queue `{queue}` in {file}"));
    } else if report.applied {
        let action =
            if report.config.contains("# [actions.") { format!("write its action in {file}, ") } else { String::new() };
        output::talk(&format!(
            "done: the table is now the queue `{queue}` in {file}; next: {action}ichido migrate, ichido run"
        ));
    } else {
        output::talk("nothing was changed; run it again with --apply to make these changes");
    }
}
