//! The `turnstream` binary: one file or folder per command.

mod acp;
mod agent_choice;
mod agent_listener;
mod agents;
mod attach;
mod attempt_links;
mod budget;
mod check;
mod client;
mod completions;
mod config;
mod data_directory;
mod demo;
mod diagnostics;
mod end_with;
mod escape;
mod exit;
mod export;
mod follow_up;
mod gateway_file;
mod hints;
mod host;
mod import;
mod input;
mod inspect;
mod moment;
mod open_files;
mod out;
mod record;
mod run;
mod search;
mod serve;
mod sessions;
mod shell;
mod show;
mod signals;
mod tail;
mod token;
mod unattended;
mod verbs;

use clap::{Parser, Subcommand};
use escape::safe;
use exit::Exit;
use std::process::ExitCode;
use std::time::Duration;

// docs/decisions/0006-mimalloc-in-the-binaries.md
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Grace period for background tasks after a command returns.
const GRACE_PERIOD: Duration = Duration::from_millis(100);

/// Runs coding agents behind a gateway with one durable log per session. Every turn ends exactly once, and
/// any client can reconnect without losing an event. Without a command, `serve` is run.
///
/// To start: run `turnstream serve` in one terminal, and `turnstream run "Hello"` in another. Other clients
/// need the token that `turnstream token` prints.
#[derive(Parser)]
#[command(name = "turnstream", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::Args,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Args),
    Run(run::Args),
    Attach(attach::Args),
    Acp(acp::Args),
    Send(verbs::send::Args),
    Approve(verbs::approve::Args),
    Answer(verbs::answer::Args),
    Cancel(verbs::cancel::Args),
    Wake(verbs::wake::Args),
    Budget(verbs::budget::Args),
    Resume(verbs::resume::Args),
    #[command(visible_alias = "ls")]
    Sessions(sessions::Args),
    Delete(verbs::delete::Args),
    Agents(verbs::agents::Args),
    Token(token::Args),
    Login(verbs::login::Args),
    Open(verbs::open::Args),
    Search(search::Args),
    Tail(tail::Args),
    Export(export::Args),
    Import(import::Args),
    Inspect(inspect::Args),
    Check(check::Args),
    Demo(demo::Args),
    Completions(completions::Args),
}

fn main() -> ExitCode {
    // Every command may host a gateway, which writes sessions.
    turnstream_agents::restrict_umask();
    let Cli { command, serve } = Cli::parse();
    let done = match command.unwrap_or(Command::Serve(serve)) {
        Command::Serve(args) => block_on(serve::run(args)),
        Command::Run(args) => block_on(run::run(args)),
        Command::Attach(args) => block_on(attach::run(args)),
        Command::Acp(args) => block_on(acp::run(args)),
        Command::Send(args) => block_on(verbs::send::run(args)),
        Command::Approve(args) => block_on(verbs::approve::run(args)),
        Command::Answer(args) => block_on(verbs::answer::run(args)),
        Command::Cancel(args) => block_on(verbs::cancel::run(args)),
        Command::Wake(args) => block_on(verbs::wake::run(args)),
        Command::Budget(args) => block_on(verbs::budget::run(args)),
        Command::Resume(args) => block_on(verbs::resume::run(args)),
        Command::Delete(args) => block_on(verbs::delete::run(args)),
        Command::Agents(args) => block_on(verbs::agents::run(args)),
        Command::Token(args) => token::run(&args).map_err(|error| Failure::of(&error)),
        Command::Login(args) => block_on(verbs::login::run(args)),
        Command::Open(args) => block_on(verbs::open::run(args)),
        Command::Sessions(args) => block_on(sessions::run(args)),
        Command::Search(args) => block_on(search::run(args)),
        Command::Tail(args) => block_on(tail::run(args)),
        Command::Export(args) => block_on(export::run(args)),
        Command::Import(args) => block_on(import::run(args)),
        Command::Inspect(args) => {
            inspect::run(&args).map(|()| ExitCode::SUCCESS).map_err(|error| Failure::of(&error))
        }
        Command::Check(args) => check::run(&args).map_err(|error| Failure::of(&error)),
        Command::Demo(args) => block_on(demo::run(args)),
        Command::Completions(args) => completions::run(&args).map_err(|error| Failure::of(&error)),
    };
    match done {
        Ok(code) => code,
        Err(Failure { message, exit }) => {
            out::note(safe!["turnstream: ", escape::text(&message)]);
            exit.into()
        }
    }
}

/// Why a command failed, and its exit code.
struct Failure {
    message: String,
    exit: Exit,
}

impl Failure {
    fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        let exit_of = |cause: &(dyn std::error::Error + 'static)| match cause {
            cause if cause.is::<client::Away>() => Some(Exit::GatewayAway),
            cause if cause.is::<client::Interrupted>() => Some(Exit::Cancelled),
            _ => None,
        };
        let mut causes = std::iter::successors(Some(error), |error| error.source());
        let exit = causes.find_map(exit_of).unwrap_or(Exit::NotAccepted);
        Self { message: error.to_string(), exit }
    }
}

/// Runs a command. A thread that still reads the terminal does not keep the process.
fn block_on<E: std::error::Error + 'static>(
    command: impl Future<Output = Result<ExitCode, E>>,
) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let cannot = |error| Failure { message: format!("cannot start: {error}"), exit: Exit::NotAccepted };
    let runtime = runtime.map_err(cannot)?;
    let done = runtime.block_on(command);
    runtime.shutdown_timeout(GRACE_PERIOD);
    done.map_err(|error| Failure::of(&error))
}
