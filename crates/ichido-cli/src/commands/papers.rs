//! `ichido completions` and `ichido man`: what a shell and a reader of manuals want, made from the command line itself.

use std::{
    io::{ErrorKind, Write, stdout},
    path::Path,
};

use clap::CommandFactory;

use crate::{
    args::{Cli, Completions, Man},
    failure::Failure,
    output,
};

/// Prints the completions of a shell.
pub(crate) fn completions(asked: &Completions) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(asked.shell, &mut Cli::command(), "ichido", &mut text);
    print(&text)
}

/// Prints the manual page, or writes that of every command into a folder.
pub(crate) fn man(asked: &Man) -> Result<u8, Failure> {
    let Some(folder) = &asked.to else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        return print(&page);
    };
    write_all(folder).map_err(|error| Failure::usage(format!("{}: {error}", folder.display())))?;
    output::print(&format!("wrote ichido.1 and a page for each command to {}", folder.display()))?;
    Ok(0)
}

fn write_all(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)
}

fn print(text: &[u8]) -> Result<u8, Failure> {
    match stdout().lock().write_all(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(0),
    }
}
