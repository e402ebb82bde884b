//! `turnstream export SESSION`: writes a session to a file.

mod target;

use crate::client::{ClientError, Connected, Download, FindError, Reach, connect_unless};
use crate::escape::{Untrusted, safe};
use crate::exit::Exit;
use crate::out;
use crate::signals::Signals;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use target::{Target, TargetError};
use turnstream_model::export::Header;

/// How long one request waits for open turns. After that the request is repeated.
const WAIT: Duration = Duration::from_secs(60);

/// Write a session to a file, as JSON lines or as a Markdown page
///
/// `turnstream import` and `turnstream check` read the JSON lines. An open turn is not written: the file ends
/// before it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The session id, or its unique beginning
    session: String,
    /// The format of the file
    #[arg(long, value_enum, default_value = "jsonl")]
    format: Format,
    /// The file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
    /// Wait until no turn of the session is open
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// JSON lines: a header, then the events
    Jsonl,
    /// The conversation as a page
    Markdown,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Markdown => "markdown",
        }
    }
}

/// Why the export failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("cannot handle signals: {0}")]
    Signals(#[source] io::Error),
    #[error("the gateway sent {lines} of {expected} lines; try again")]
    CutOff { lines: u64, expected: u64 },
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, ExportError> {
    // Checked before a wait that can take an hour.
    let target = Target::new(args.output.as_deref(), args.force)?;
    let mut signals = Signals::take().map_err(ExportError::Signals)?;
    let connected = connect_unless(&args.reach, None, signals.interrupted()).await?;
    let written = tokio::select! {
        written = write(&connected, &args, target) => written,
        _ = signals.next() => Ok(Exit::Cancelled.into()),
    };
    connected.end().await;
    match written {
        // The reader closed the pipe, for example `head`.
        Err(ExportError::Target(TargetError::ReaderGone)) => Ok(ExitCode::SUCCESS),
        written => written,
    }
}

async fn write(connected: &Connected, args: &Args, mut target: Target) -> Result<ExitCode, ExportError> {
    let wait = if args.wait { WAIT } else { Duration::ZERO };
    let session = connected.client.session_id(&args.session).await?;
    let mut download = connected.client.export(&session, args.format.name(), wait).await?;
    while args.wait && download.left_out > 0 {
        download = connected.client.export(&session, args.format.name(), wait).await?;
    }
    match args.format {
        Format::Jsonl => lines(&mut download, &mut target).await?,
        Format::Markdown => {
            while let Some(bytes) = download.next().await? {
                target.write(&bytes)?;
            }
        }
    }
    target.finish()?;
    tell(&download, &session, args);
    Ok(ExitCode::SUCCESS)
}

/// Writes the lines and counts them: the header says how many there must be.
async fn lines(download: &mut Download, target: &mut Target) -> Result<(), ExportError> {
    let (mut first, mut header) = (Vec::new(), None);
    let mut lines = 0;
    while let Some(bytes) = download.next().await? {
        lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        if header.is_none() {
            first.extend_from_slice(&bytes);
            if let Some(end) = first.iter().position(|byte| *byte == b'\n') {
                header = Header::from_json(&String::from_utf8_lossy(&first[..end])).ok();
                first = Vec::new();
            }
        }
        target.write(&bytes)?;
    }
    let expected = header.map_or(2, |header| 2 + header.head.0 - header.first.0);
    if lines == expected { Ok(()) } else { Err(ExportError::CutOff { lines, expected }) }
}

/// Notes for the person, on standard error.
fn tell(download: &Download, session: &str, args: &Args) {
    if let Some(path) = &args.output {
        let path = path.display().to_string();
        out::note(safe!["session ", Untrusted(session), " is in ", Untrusted(&path)]);
    }
    if download.first > 1 {
        let first = download.first;
        out::note(safe!["events before ", first, " were removed by retention, and are not in it"]);
    }
    if download.left_out > 0 {
        let count = download.left_out;
        out::note(safe![count, " events of an open turn are not in it; --wait waits for its end"]);
    }
}
