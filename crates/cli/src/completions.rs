//! `turnstream completions SHELL`: what a shell needs to complete commands and flags.

use crate::out;
use clap::CommandFactory;
use std::io;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  turnstream completions bash > ~/.local/share/bash-completion/completions/turnstream
  turnstream completions zsh > ~/.zfunc/_turnstream
  turnstream completions fish > ~/.config/fish/completions/turnstream.fish";

/// Print completions for a shell.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> io::Result<ExitCode> {
    // Made whole first: a reader that goes away must not make the generator panic.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "turnstream", &mut script);
    match out::exact(&script) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}
