//! The program `ichido`. Everything is in the library of this crate, so that it can be tested; this file only ends the process.

use std::process::ExitCode;

fn main() -> ExitCode {
    ichido_cli::main(std::env::args_os())
}
