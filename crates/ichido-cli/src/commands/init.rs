//! `ichido init`: writes a configuration in which every key is explained and has its default. The text is a file of its own,
//! and a test reads it back.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use crate::{
    args::Init,
    config::{Config, TEMPLATE, with_url},
    failure::Failure,
    output,
};

pub(crate) fn run(init: &Init, path: &Path, url: Option<&str>, quiet: bool) -> Result<u8, Failure> {
    let text = url.map_or_else(|| TEMPLATE.to_owned(), with_url);
    // Before anything is written: the address may be none.
    Config::parse(&text, &path.display().to_string(), &|_| None)?;
    write(path, &text, init.force)?;
    if !quiet {
        output::complain(next(path).trim_end());
    }
    Ok(0)
}

/// For its owner only: an address may have a password in it.
fn write(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    let options = if force { options.create(true).truncate(true) } else { options.create_new(true) };
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::usage(format!("{} already exists; use --force to overwrite it", path.display()))
        }
        _ => Failure::usage(format!("{}: {error}", path.display())),
    })
}

fn next(path: &Path) -> String {
    let file = path.display().to_string();
    let config = if file == "ichido.toml" { String::new() } else { format!(" --config {file}") };
    let commands = [
        ("migrate", "create ichido's tables"),
        ("check", "validate the configuration and the database"),
        (r#"send hello '{"name":"world"}'"#, "send a first message"),
        ("run Hello --drain", "process it"),
        ("adopt --table T", "make one of your tables a queue"),
    ];
    let lines = commands.map(|(command, why)| format!("  {:<48} # {why}\n", format!("ichido{config} {command}")));
    format!("wrote {file}; next:\n{}", lines.concat())
}
