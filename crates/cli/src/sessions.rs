//! `turnstream sessions`: all sessions in a table.

use crate::client::{ClientError, FindError, Reach, connect};
use crate::escape::{self, preview};
use serde_json::Value;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use unicode_width::UnicodeWidthStr;

/// Widest column of words that others chose.
const WIDEST: usize = 48;

/// List all sessions, the newest last.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    reach: Reach,
    /// One JSON object per session instead of a table
    #[arg(long)]
    json: bool,
}

/// Why there is no list.
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
    let text = if args.json { lines(&sessions) } else { table(&sessions, now()) };
    match io::stdout().write_all(text.as_bytes()) {
        // A reader that goes away has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn lines(sessions: &[Value]) -> String {
    sessions.iter().map(|session| escape::json(&session.to_string()) + "\n").collect()
}

fn table(sessions: &[Value], now: u64) -> String {
    if sessions.is_empty() {
        return "There are no sessions yet. turnstream run \"Hello\" makes one.\n".to_owned();
    }
    let header = ["SESSION", "AGENT", "STATUS", "TITLE OR DIRECTORY", "HEAD", "AGE"].map(str::to_owned);
    let rows: Vec<[String; 6]> =
        std::iter::once(header).chain(sessions.iter().map(|session| row(session, now))).collect();
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }
    let mut table = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width - cell.width() + 2));
        }
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table
}

fn row(session: &Value, now: u64) -> [String; 6] {
    let text = |member: &str| preview(session[member].as_str().unwrap_or_default(), WIDEST);
    let status = if session["ended"].is_null() { text("status") } else { "ended".to_owned() };
    let about = if session["title"].is_null() { text("cwd") } else { text("title") };
    let age = session["created"].as_u64().map_or("?".to_owned(), |created| age(now.saturating_sub(created)));
    [text("id"), text("agent"), status, about, session["head"].to_string(), age]
}

fn age(millis: u64) -> String {
    match millis / 1_000 {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::table;
    use serde_json::json;

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
        assert_eq!(table(&sessions, 3 * 3_600_000 + 1), expected);
    }
}
