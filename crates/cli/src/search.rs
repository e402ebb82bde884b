//! `turnstream search WORDS…`: full-text search in all sessions.

use crate::client::{Client, ClientError, FindError, Reach, connect, segment};
use crate::escape::{self, Safe, Untrusted, safe};
use crate::record::Record;
use crate::{moment, out};
use serde_json::Value;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use turnstream_log::MOST_QUERY_BYTES;

/// The size of a page of hits.
const AT_ONCE: usize = 100;
/// How long to wait for an index that is being built, and how often to ask.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);
/// The pause before a retry when too many searches run.
const BUSY: Duration = Duration::from_secs(1);

/// Search finished items and prompts, newest first
///
/// Exit codes: 0 when something was found, 1 when nothing was found, 2 if the search was incomplete.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Words that must all occur. Also '"a phrase"', 'retr*' for a prefix, 'word -other' to exclude a word
    #[arg(required = true)]
    words: Vec<String>,
    /// Only this session, by id or its unique beginning
    #[arg(long)]
    session: Option<String>,
    /// Only in sessions with this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only messages of `user` or `assistant`
    #[arg(long)]
    role: Option<String>,
    /// Only `message`, `reasoning`, `tool`, `plan`, `file` or `compaction`
    #[arg(long)]
    kind: Option<String>,
    /// Only items from then or later: 2026-11-16, 2026-11-16T10:30 (UTC), or 12h or 7d for a time ago
    #[arg(long, value_name = "MOMENT", value_parser = moment::parse)]
    from: Option<u64>,
    /// Only items from before then
    #[arg(long, value_name = "MOMENT", value_parser = moment::parse)]
    to: Option<u64>,
    /// The largest number of hits
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// The longest time for the search, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    within: u64,
    /// Print one JSON object per hit
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Why the search failed or is incomplete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SearchError {
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the words have {0} bytes and may have {MOST_QUERY_BYTES}; use fewer")]
    TooLong(usize),
    #[error(
        "it was looked for {0} s and not everywhere, there may be older ones: look longer with --within, or for less with \
         --from, --to, --session, --agent or other words"
    )]
    Unfinished(u64),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, SearchError> {
    let length = args.words.join(" ").len();
    if length > MOST_QUERY_BYTES {
        return Err(SearchError::TooLong(length));
    }
    let connected = connect(&args.reach, None).await?;
    let found = match named(&connected.client, args).await {
        Ok(args) => find(&connected.client, &args).await,
        Err(error) => Err(error.into()),
    };
    connected.end().await;
    Ok(if found? == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The same filter with the full id of the session.
async fn named(client: &Client, args: Args) -> Result<Args, ClientError> {
    let session = match &args.session {
        Some(asked) => Some(client.session_id(asked).await?),
        None => None,
    };
    Ok(Args { session, ..args })
}

/// Prints page after page, up to the number of hits that was asked for. Returns how many there are.
async fn find(client: &Client, args: &Args) -> Result<usize, SearchError> {
    let marks = if out::is_terminal() { Marks::Bold } else { Marks::None };
    let (mut found, mut cursor) = (0, None);
    let begun = Instant::now();
    let is_over = || begun.elapsed() >= Duration::from_secs(args.within);
    while found < args.limit {
        let path = path(args, (args.limit - found).min(AT_ONCE), cursor.as_deref());
        let page = if cursor.is_none() { first_page(client, &path).await } else { client.get(&path).await };
        let page = match page {
            Err(error) if error.kind() == Some("busy") && !is_over() => {
                tokio::time::sleep(BUSY).await;
                continue;
            }
            page => page?,
        };
        let hits = page["hits"].as_array().map_or(&[][..], Vec::as_slice);
        found += hits.len();
        let text: Safe =
            hits.iter().map(|hit| if args.json { line(hit) } else { shown(Record(hit), marks) }).collect();
        match out::print(&text) {
            // The reader closed the pipe, for example `head`.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            written => written?,
        }
        match page["next"].as_str() {
            Some(_) if page["incomplete"] == true && is_over() => {
                return Err(SearchError::Unfinished(args.within));
            }
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    Ok(found)
}

/// Waits for an index that is being built, so that no hit is missing.
async fn first_page(client: &Client, path: &str) -> Result<Value, ClientError> {
    let begun = Instant::now();
    loop {
        let page = client.get(path).await?;
        if page["indexing"] != true {
            return Ok(page);
        }
        if begun.elapsed() > PATIENCE {
            out::note(safe!["turnstream: the index is being built; there may be more in a while"]);
            return Ok(page);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn path(args: &Args, limit: usize, cursor: Option<&str>) -> String {
    let mut path = format!("/v1/search?q={}&limit={limit}", segment(&args.words.join(" ")));
    let (from, to) = (args.from.map(|time| time.to_string()), args.to.map(|time| time.to_string()));
    let filters = [
        ("session", args.session.as_deref()),
        ("agent", args.agent.as_deref()),
        ("role", args.role.as_deref()),
        ("kind", args.kind.as_deref()),
        ("from", from.as_deref()),
        ("to", to.as_deref()),
        ("cursor", cursor),
    ];
    for (name, value) in filters {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", segment(value)));
        }
    }
    path
}

fn line(hit: &Value) -> Safe {
    safe![escape::json(&hit.to_string()), "\n"]
}

/// How a match is marked.
#[derive(Clone, Copy)]
enum Marks {
    Bold,
    None,
}

fn shown(hit: Record<'_>, marks: Marks) -> Safe {
    let what = if hit.has("item") { hit.text("item") } else { hit.text("prompt") };
    let whose = hit.some_text("role").map(|role| safe![" of the ", role]).unwrap_or_default();
    let time = moment::shown(hit.number("time").unwrap_or_default());
    let (session, agent, kind) = (hit.text("session"), hit.text("agent"), hit.text("kind"));
    let mut shown =
        safe![Untrusted(&time), "  ", session, "  ", agent, "  ", kind, whose, " ", what, "\n    "];
    for part in hit.list("snippet") {
        let text = part.text("text").text();
        match (part.is_true("hit"), marks) {
            (true, Marks::Bold) => shown.extend([safe!["\x1B[1m", text, "\x1B[22m"]]),
            (true, Marks::None) | (false, Marks::Bold | Marks::None) => shown.push(text),
        }
    }
    safe![shown, "\n"]
}

#[cfg(test)]
mod tests {
    use super::{Marks, shown};
    use crate::record::Record;
    use serde_json::json;

    #[test]
    fn a_hit_is_shown_in_two_lines_and_cannot_act_on_the_terminal() {
        let hit = json!({"session": "ses_1", "agent": "a\u{1b}[2J", "item": "i3", "kind": "message",
            "role": "assistant", "time": 1_794_825_005_000_u64,
            "snippet": [{"text": "the "}, {"text": "re\u{1b}try", "hit": true}, {"text": " policy\u{9b}"}]});
        let head = "2026-11-16 10:30  ses_1  a\\u{1b}[2J  message of the assistant i3\n";
        assert_eq!(
            shown(Record(&hit), Marks::None).to_string(),
            format!("{head}    the re\\u{{1b}}try policy\\u{{9b}}\n")
        );
        assert_eq!(
            shown(Record(&hit), Marks::Bold).to_string(),
            format!("{head}    the \u{1b}[1mre\\u{{1b}}try\u{1b}[22m policy\\u{{9b}}\n")
        );
        let prompt =
            json!({"session": "s", "agent": "a", "prompt": "p1", "kind": "tool", "time": 0, "snippet": []});
        assert_eq!(
            shown(Record(&prompt), Marks::None).to_string(),
            "1970-01-01 00:00  s  a  tool p1\n    \n"
        );
    }
}
