//! `turnstream tail SESSION`: shows a session's events as they come.

use crate::client::{ClientError, Connected, FindError, Reach, Received, connect_unless};
use crate::escape::{self, Safe, safe};
use crate::exit::Exit;
use crate::out;
use crate::record::Record;
use crate::show::{self, Answers, Asides, Asks, Prompts, Screen, Show, Style};
use crate::signals::Signals;
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::timeout;

/// After a pause of this length, the last event is complete.
const QUIET: Duration = Duration::from_secs(1);

/// Show a session's events, then wait for more
///
/// Ctrl-C ends the command; the session goes on. Exit codes: 0 when everything was shown, 2 when nothing
/// can be shown, 4 when the gateway does not answer, 130 after Ctrl-C.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The session id, or its unique beginning
    session: String,
    /// Start after this event: GENERATION:SEQ or SEQ [default: the first event]
    #[arg(long, value_name = "CURSOR", default_value = "0")]
    after: String,
    /// Print the events as JSON lines instead of text
    #[arg(long)]
    json: bool,
    /// Stop at the last event instead of waiting for more
    #[arg(long)]
    no_follow: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Why events cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TailError {
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("cannot handle signals: {0}")]
    Signals(#[source] io::Error),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, TailError> {
    let mut signals = Signals::take().map_err(TailError::Signals)?;
    let connected = connect_unless(&args.reach, None, signals.interrupted()).await?;
    let shown = tokio::select! {
        shown = show(&connected, &args) => shown,
        _ = signals.next() => Ok(Exit::Cancelled.into()),
    };
    connected.end().await;
    match shown {
        // The reader closed the pipe, for example `head`.
        Err(TailError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        shown => shown,
    }
}

async fn show(connected: &Connected, args: &Args) -> Result<ExitCode, TailError> {
    let session = connected.client.session_id(&args.session).await?;
    let mut events = connected.client.events(&session, &args.after);
    let mut screen = Screen::new(Asides::Among);
    let mut show = Show::new(Prompts::Shown, Asks::Shown, Answers::Streamed);
    let mut last = None;
    loop {
        let received = match timeout(QUIET, events.next()).await {
            Ok(received) => received?,
            Err(_) => {
                show.quiet(&mut screen)?;
                continue;
            }
        };
        match received {
            Received::Outcome(outcome) => {
                let outcome = Record(&outcome);
                if let Some(reset) = show::reset(outcome) {
                    tell(args, &reset, &mut screen)?;
                }
                if outcome.is("outcome", "gone") {
                    screen.end_line()?;
                    return Ok(ExitCode::SUCCESS);
                }
                let head = outcome.number("head").unwrap_or_default();
                // Retention may have removed all events.
                let is_past = outcome.number("oldest").is_some_and(|oldest| oldest > head);
                let nothing = outcome.is("outcome", "caught_up") || head == 0 || is_past;
                if args.no_follow && nothing {
                    return Ok(ExitCode::SUCCESS);
                }
                last.get_or_insert(head);
            }
            Received::Event { line, event } => {
                if args.json {
                    out::print(&safe![escape::json(&line), "\n"])?;
                } else {
                    show.event(Record(&event), &mut screen)?;
                }
                if args.no_follow && event["seq"].as_u64() >= last {
                    screen.end_line()?;
                    return Ok(ExitCode::SUCCESS);
                }
            }
            Received::Away(error) => {
                screen.end_line()?;
                out::note(show::away(&error));
            }
        }
    }
}

/// Prints a line that is not an event. With `--json` it goes to standard error.
fn tell(args: &Args, line: &Safe, screen: &mut Screen) -> io::Result<()> {
    if args.json {
        out::note(line.clone());
        return Ok(());
    }
    screen.line(Style::Warning, line)
}
