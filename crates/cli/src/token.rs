//! `turnstream token`: prints the token of the gateway, or replaces it.

use crate::config::{ConfigError, Place};
use crate::escape;
use crate::out;
use std::io;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  curl -H \"Authorization: Bearer $(turnstream token)\" http://127.0.0.1:4180/v1/sessions
  turnstream token --new       the old token and all signed-in pages end at once";

/// Print the token that clients of the gateway must send
///
/// The token is made at the first start and kept in the data directory. With auth = "none" there is no token:
/// nothing is printed, and the exit code is 1.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Make a new token. A running gateway uses it from the next request on
    #[arg(long)]
    new: bool,
    #[command(flatten)]
    place: Place,
}

/// Why there is no token to print.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenCommandError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, TokenCommandError> {
    let token = if args.new { Some(args.place.new_token()?) } else { args.place.own_token()? };
    let Some(token) = token else { return Ok(ExitCode::FAILURE) };
    match out::print(&escape::text(&format!("{}\n", token.expose()))) {
        // The reader closed the pipe.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}
