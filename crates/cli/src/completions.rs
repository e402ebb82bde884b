//! `turnstream completions SHELL`: prints the completion script of a shell.

use crate::out;
use clap::CommandFactory;
use std::io;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  turnstream completions bash > ~/.local/share/bash-completion/completions/turnstream
  turnstream completions zsh > ~/.zfunc/_turnstream
  turnstream completions fish > ~/.config/fish/completions/turnstream.fish";

/// Print the completion script of a shell
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> io::Result<ExitCode> {
    // The generator panics if it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "turnstream", &mut script);
    match out::exact(&script) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}
