//! The `turnstream` binary: one file per command.

mod check;
mod escape;
mod input;
mod inspect;

use clap::{Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;

/// Keeps agent turns: one durable log per session, every turn ended exactly once.
#[derive(Parser)]
#[command(name = "turnstream", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Inspect(inspect::Args),
    Check(check::Args),
}

/// What is said without a command. Serving is not claimed before there is a gateway.
const WORKS_TODAY: &str = "\
There is no gateway to start yet. What works today:

  turnstream inspect FILE   show every event, comment, anomaly and residue of a saved
                            SSE stream or NDJSON file, with byte offsets
  turnstream check FILE     judge an exported log by the laws and name every violation
                            with its line

turnstream help COMMAND tells more.";

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Some(Command::Inspect(args)) => {
            inspect::run(&args).map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
        }
        Some(Command::Check(args)) => check::run(&args).map_err(|error| error.to_string()),
        None => {
            // A reader that has gone away is no failure, and `println!` would panic.
            match writeln!(io::stdout(), "turnstream {}\n\n{WORKS_TODAY}", env!("CARGO_PKG_VERSION")) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    Err(format!("cannot write the output: {error}"))
                }
                _ => Ok(ExitCode::SUCCESS),
            }
        }
    };
    match done {
        Ok(code) => code,
        Err(message) => {
            let _ = writeln!(io::stderr(), "turnstream: {message}");
            ExitCode::from(2)
        }
    }
}
