//! `turnstream tail SESSION`: one session's events, from any place, as they come.

use crate::client::{ClientError, Connected, FindError, Reach, Received, connect};
use crate::escape;
use crate::show::{Asides, Prompts, Screen, Show};
use crate::signals::Signals;
use std::io::{self, Write};
use std::process::ExitCode;

/// Show a session's events, then wait for more. Ctrl-C ends it; the session goes on.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The session, or as much of its id as tells it from the others
    session: String,
    /// Begin after this event: GENERATION:SEQ or SEQ; without it at the first
    #[arg(long, value_name = "CURSOR", default_value = "0")]
    after: String,
    /// The events as JSON lines instead of text
    #[arg(long)]
    json: bool,
    /// End with the last event there is instead of waiting for more
    #[arg(long)]
    no_follow: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Why nothing is shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TailError {
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("cannot take over the signals: {0}")]
    Signals(io::Error),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, TailError> {
    let mut signals = Signals::take().map_err(TailError::Signals)?;
    let connected = connect(&args.reach, None).await?;
    let shown = tokio::select! {
        shown = show(&connected, &args) => shown,
        _ = signals.next() => Ok(ExitCode::from(130)),
    };
    connected.end().await;
    match shown {
        // A reader that goes away has seen enough.
        Err(TailError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        shown => shown,
    }
}

async fn show(connected: &Connected, args: &Args) -> Result<ExitCode, TailError> {
    let session = connected.client.session_id(&args.session).await?;
    let mut events = connected.client.events(&session, &args.after);
    let (mut screen, mut show) = (Screen::new(Asides::Among), Show::new(Prompts::Shown));
    let mut last = None;
    loop {
        match events.next().await? {
            Received::Outcome(outcome) => {
                if outcome["outcome"] == "gone" {
                    screen.end_line()?;
                    return Ok(ExitCode::SUCCESS);
                }
                let head = outcome["head"].as_u64().unwrap_or_default();
                // Of a trimmed session there may be nothing left to show.
                let is_past = outcome["oldest"].as_u64().is_some_and(|oldest| oldest > head);
                let nothing = outcome["outcome"] == "caught_up" || head == 0 || is_past;
                if args.no_follow && nothing {
                    return Ok(ExitCode::SUCCESS);
                }
                last.get_or_insert(head);
            }
            Received::Event { line, event } => {
                if args.json {
                    writeln!(io::stdout(), "{}", escape::json(&line))?;
                } else {
                    show.event(&event, &mut screen)?;
                }
                if args.no_follow && event["seq"].as_u64() >= last {
                    screen.end_line()?;
                    return Ok(ExitCode::SUCCESS);
                }
            }
        }
    }
}
