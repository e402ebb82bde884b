//! `turnstream demo`: a gateway, a model provider and an agent that break on purpose, and a client that looks
//! on. It ends with a table of what was measured.

mod cable;
mod gateway;
mod scenes;
mod script;
mod stage;
mod table;
mod tally;
mod viewer;

use crate::client::ClientError;
use crate::escape::{Safe, Untrusted, safe};
use crate::exit::Exit;
use crate::out;
use crate::show::{Asides, Screen, Style};
use crate::signals::Signals;
use stage::{Stage, StageError};
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use tally::Tally;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

/// The longest time for all scenes. They take less than half a minute.
const LONGEST: Duration = Duration::from_secs(300);

/// Show what Turnstream promises, on this machine, within a minute
///
/// Starts a gateway, a fake model provider and the built-in agent in a temporary directory. Then it cuts the
/// client's connection, splices the provider's stream, kills the gateway and lets a limit expire. It shows
/// what a client sees, and ends with what was measured. It needs no key and no network, and leaves nothing
/// behind. Exit codes: 0 if every promise held, 1 if one did not, 2 if it could not begin, 130 after Ctrl-C.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Break a promise on purpose, to see that the demo notices
    #[arg(long, value_enum)]
    sabotage: Option<Sabotage>,
}

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Sabotage {
    /// One event is lost on its way to the client
    Lose,
    /// One event comes twice
    Repeat,
    /// The provider delivers the wrong tool call as a whole answer
    Tool,
}

/// Why the demo did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    #[error(transparent)]
    Stage(#[from] StageError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("cannot handle signals: {0}")]
    Signals(#[source] io::Error),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    #[error("the demo was not over after {} seconds", LONGEST.as_secs())]
    Late,
}

/// How fast the demo goes.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Between two pieces of an answer.
    delta_ms: u64,
    /// How long an answer pauses while the connection is cut.
    held_ms: u64,
    /// For a person to read what was printed.
    reading: Duration,
    /// The provider's limit, in seconds.
    limit: u64,
}

/// How the scenes ended.
enum Played {
    Whole(Tally),
    Interrupted,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, DemoError> {
    let mut signals = Signals::take().map_err(DemoError::Signals)?;
    let mut closed_terminal = signal(SignalKind::hangup()).map_err(DemoError::Signals)?;
    let mut screen = Screen::new(Asides::Among);
    let pace = if out::is_terminal() { Pace::WATCHED } else { Pace::UNWATCHED };
    let mut stage = Stage::set(script::answers(pace, args.sabotage)).await?;
    let played = tokio::select! {
        biased;
        () = signals.interrupted() => Ok(Played::Interrupted),
        _ = closed_terminal.recv() => Ok(Played::Interrupted),
        played = timeout(LONGEST, scenes::play(&mut stage, &mut screen, pace, args.sabotage)) => {
            played.map_err(|_| DemoError::Late).flatten().map(Played::Whole)
        }
    };
    let log = stage.gateway_log();
    let left = stage.clear().await;
    match played {
        Ok(Played::Whole(mut tally)) => {
            tally.left = left;
            Ok(end(&tally, &mut screen)?)
        }
        Ok(Played::Interrupted) => {
            // The terminal may be gone.
            let _ended = screen.end_line();
            out::note(safe!["turnstream: interrupted; nothing is left behind"]);
            Ok(Exit::Cancelled.into())
        }
        Err(DemoError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(Exit::ReaderGone.into())
        }
        Err(error) => {
            screen.end_line()?;
            let error = error.to_string();
            out::note(safe!["turnstream: the demo failed: ", Untrusted(&error)]);
            if !log.is_empty() {
                out::note(safe!["the gateway said:\n", Untrusted(&log).text()]);
            }
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Prints the table and the verdict.
fn end(tally: &Tally, screen: &mut Screen) -> io::Result<ExitCode> {
    let rows = table::rows(tally);
    table::print(&rows, screen)?;
    let broken = rows.iter().filter(|row| row.held == Some(false)).count();
    if broken == 0 {
        screen.line(Style::Good, &safe!["Every promise held."])?;
        let next = "Next: `turnstream serve`, and in another terminal `turnstream run \"Hello\"`.";
        screen.line(Style::Faint, &safe![next])?;
        return Ok(ExitCode::SUCCESS);
    }
    screen.line(Style::Warning, &promises_broken(broken))?;
    Ok(ExitCode::FAILURE)
}

fn promises_broken(count: usize) -> Safe {
    match count {
        1 => safe!["1 promise did not hold."],
        count => safe![count, " promises did not hold."],
    }
}

// === impl Pace ===

impl Pace {
    /// For a person at a terminal.
    const WATCHED: Self =
        Self { delta_ms: 70, held_ms: 1_200, reading: Duration::from_millis(900), limit: 4 };
    /// For a file or a pipe.
    const UNWATCHED: Self = Self { delta_ms: 10, held_ms: 500, reading: Duration::ZERO, limit: 1 };

    /// Lets a person read.
    async fn pause(self) {
        tokio::time::sleep(self.reading).await;
    }
}
