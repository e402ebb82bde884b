//! `turnstream sessions`: lists all sessions.

use crate::client::{ClientError, FindError, Reach, connect};
use crate::escape::{self, Safe, safe};
use crate::out;
use crate::record::Record;
use serde_json::Value;
use std::io;
use std::process::ExitCode;
use turnstream_model::time::Time;

/// The widest column of text that users or agents chose.
const WIDEST: usize = 48;

/// List all sessions, newest last
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON object per session instead of a table
    #[arg(long)]
    json: bool,
}

/// Why the sessions cannot be listed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionsError {
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, SessionsError> {
    let connected = connect(&args.reach, None).await?;
    let listed = connected.client.get("/v1/sessions").await;
    connected.end().await;
    let mut sessions = listed?["sessions"].as_array().cloned().unwrap_or_default();
    sessions.sort_by_key(|session| session["created"].as_u64());
    let text = if args.json { lines(&sessions) } else { table(&sessions, Time::now()) };
    match out::print(&text) {
        // The reader closed the pipe, for example `head`.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn lines(sessions: &[Value]) -> Safe {
    sessions.iter().map(|session| safe![escape::json(&session.to_string()), "\n"]).collect()
}

fn table(sessions: &[Value], now: Time) -> Safe {
    if sessions.is_empty() {
        return safe!["There are no sessions yet. turnstream run \"Hello\" makes one.\n"];
    }
    let header = ["SESSION", "AGENT", "STATUS", "TITLE OR DIRECTORY", "HEAD", "AGE"].map(|word| safe![word]);
    let rows: Vec<[Safe; 6]> =
        std::iter::once(header).chain(sessions.iter().map(|session| row(Record(session), now))).collect();
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }
    let line = |row: [Safe; 6]| {
        let cells = row.into_iter().zip(widths).map(|(cell, width)| cell.padded(width + 2));
        safe![cells.collect::<Safe>().trimmed(), "\n"]
    };
    rows.into_iter().map(line).collect()
}

fn row(session: Record<'_>, now: Time) -> [Safe; 6] {
    let text = |member: &str| session.text(member).preview(WIDEST);
    let status = if session.has("ended") { safe!["ended"] } else { text("status") };
    let about = if session.has("title") { text("title") } else { text("cwd") };
    let age = session.number("created").map_or(safe!["?"], |created| age(now.0.saturating_sub(created)));
    let head = session.number("head").map_or(safe!["?"], |head| safe![head]);
    [text("id"), text("agent"), status, about, head, age]
}

fn age(millis: u64) -> Safe {
    match millis / 1_000 {
        seconds @ 0..60 => safe![seconds, "s"],
        seconds @ 60..3_600 => safe![seconds / 60, "m"],
        seconds @ 3_600..86_400 => safe![seconds / 3_600, "h"],
        seconds => safe![seconds / 86_400, "d"],
    }
}

#[cfg(test)]
mod tests {
    use super::table;
    use serde_json::json;
    use turnstream_model::time::Time;

    #[test]
    fn a_table_shows_what_each_session_is() {
        let sessions = [
            json!({"id": "ses_1", "agent": "scripted", "status": "idle", "cwd": "/w", "head": 12, "created": 0}),
            json!({"id": "ses_22", "agent": "a", "status": "idle", "ended": "deleted", "cwd": "/w",
                "title": "A\u{1b}[2Jb", "head": 3, "created": 7_200_000}),
        ];
        let expected = "\
SESSION  AGENT     STATUS  TITLE OR DIRECTORY  HEAD  AGE
ses_1    scripted  idle    /w                  12    3h
ses_22   a         ended   A\\u{1b}[2Jb         3     1h
";
        assert_eq!(table(&sessions, Time(3 * 3_600_000 + 1)).as_str(), expected);
    }
}
