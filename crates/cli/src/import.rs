//! `turnstream import FILE`: imports an exported session.

use crate::client::{ClientError, Connected, FindError, Reach, connect};
use crate::escape::{self, safe};
use crate::input::InputError;
use crate::out;
use serde_json::Value;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Import a session that `turnstream export` wrote as JSON lines
///
/// Either the whole session is imported, or nothing. Its id is printed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file; - reads standard input
    file: PathBuf,
    /// Give the session a new id, so that the original can exist beside it
    #[arg(long)]
    new_id: bool,
    /// Print the session as a JSON object instead of its id
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    Find(#[from] FindError),
    #[error("{name}: {error}")]
    Refused {
        name: String,
        #[source]
        error: ClientError,
    },
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, ImportError> {
    let name = args.file.display().to_string();
    let file = open(&args.file).map_err(|error| InputError::unreadable(&name, error))?;
    let connected = connect(&args.reach, None).await?;
    let imported = connected.client.import(file, args.new_id).await;
    if let Ok(session) = &imported {
        tell(&connected, session).await;
    }
    connected.end().await;
    let session = imported.map_err(|error| ImportError::Refused { name, error })?;
    let shown =
        if args.json { session.to_string() } else { session["id"].as_str().unwrap_or_default().to_owned() };
    match out::print(&safe![escape::json(&shown), "\n"]) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn open(path: &Path) -> io::Result<File> {
    if path == Path::new("-") {
        return Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?));
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    Ok(file)
}

/// Notes for the person about the imported session.
async fn tell(connected: &Connected, session: &Value) {
    let agent = session["agent"].as_str().unwrap_or_default();
    let agents = connected.client.get("/v1/agents").await.unwrap_or_default();
    let known = agents["agents"].as_array().is_none_or(|known| known.iter().any(|one| one["name"] == agent));
    if !known {
        let line = format!(
            "there is no agent {agent:?} here: the session can be read, and it takes prompts once that agent is configured"
        );
        out::note(escape::text(&line));
    }
    if let Some(mended) = session["mended_times"].as_u64() {
        let line = format!(
            "times ran backwards in the file: {mended} events have the time of an earlier event instead of their own"
        );
        out::note(escape::text(&line));
    }
}
