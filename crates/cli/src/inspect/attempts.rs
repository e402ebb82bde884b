//! Recorded model calls (attempts): a table for a session, or the details of one. No gateway is needed.

use crate::escape::{self, Safe, Untrusted, safe};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use turnstream_llm::account::sentences;
use turnstream_log::{AttemptsReader, OpenError};
use turnstream_model::attempts::{Attempt, AttemptName, Ended, Evidence, Tokens, Unkept};
use turnstream_model::event::Usage;
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// Why attempts cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttemptsError {
    #[error("there are no attempts in {}: nobody has asked a provider from there; say where: --data DIR", .0.display())]
    NoneKept(PathBuf),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Unkept(#[from] Unkept),
    #[error("session {0:?} has no attempts; turnstream sessions lists all sessions")]
    NoSession(String),
    #[error("there is no attempt {0}; turnstream inspect --attempts SESSION lists those of a session")]
    NoAttempt(AttemptName),
}

/// A line per attempt of a session.
pub(super) fn list(data: &Path, session: &str, as_json: bool) -> Result<Safe, AttemptsError> {
    if session.is_empty() {
        return Err(AttemptsError::NoSession(session.to_owned()));
    }
    let rows = open(data)?.attempts(&SessionId::from(session))?;
    if rows.is_empty() {
        return Err(AttemptsError::NoSession(session.to_owned()));
    }
    if as_json {
        let line = |row| safe![escape::json(&object(row, None).to_string()), "\n"];
        return Ok(rows.iter().map(line).collect());
    }
    Ok(rows.iter().map(line).collect())
}

fn line(row: &Attempt) -> Safe {
    let begun = &row.begun;
    let class = row.end.as_ref().and_then(|end| end.class).map_or("-", |class| class.as_str());
    let (name, started) = (begun.name.to_string(), moment(begun.started));
    let (verdict, class) = (safe![verdict(row)].padded(9), safe![class].padded(16));
    let beginning = safe![Untrusted(&name), "  step ", begun.step, "  ", Untrusted(&started), "  ", verdict];
    let of = row.of.as_ref().map_or_else(String::new, |of| format!("  {}/{}", of.turn, of.attempt));
    let route = safe![Untrusted(&begun.route), "  ", Untrusted(&begun.model), Untrusted(&of)];
    safe![beginning, "  ", class, "  ", route, "\n"]
}

/// The details of one attempt.
pub(super) fn one(data: &Path, name: &AttemptName, as_json: bool) -> Result<Safe, AttemptsError> {
    let row = row(data, name)?;
    let evidence = open(data)?.evidence(name)?;
    if as_json {
        return Ok(safe![escape::json(&object(&row, evidence.as_ref()).to_string()), "\n"]);
    }
    let mut text = Safe::default();
    let begun = &row.begun;
    let mut line = |name: &'static str, value: String| {
        text.push(safe![safe![name].padded(10), Untrusted(&value), "\n"]);
    };
    line("attempt", format!("{} (step {}): {}", begun.name, begun.step, verdict(&row)));
    let asked =
        format!("{} of {} by route {} ({})", moment(begun.started), begun.model, begun.route, begun.format);
    line("asked", asked);
    if let Some(of) = &row.of {
        line("linked to", format!("attempt {} of turn {}", of.attempt, of.turn));
    }
    line("request", format!("SHA-256 {}", begun.request));
    if let Some(end) = &row.end {
        line("ended", ended(begun.started, end));
        if let Some(class) = end.class {
            let problem = end.problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
            line("why", format!("{class}{problem}"));
        }
        line("tokens", tokens(&end.tokens));
        line("bytes", format!("{} in {} events", end.findings.bytes, end.findings.events));
    }
    let findings = row.end.as_ref().map(|end| end.findings.clone()).unwrap_or_default();
    for sentence in sentences(row.verdict(), &findings) {
        text.push(safe!["- ", Untrusted(&sentence), "\n"]);
    }
    if let Some(evidence) = evidence {
        text.push(shown(&evidence));
    }
    Ok(text)
}

/// The row of one attempt.
pub(super) fn row(data: &Path, name: &AttemptName) -> Result<Attempt, AttemptsError> {
    open(data)?.attempt(name)?.ok_or_else(|| AttemptsError::NoAttempt(name.clone()))
}

fn open(data: &Path) -> Result<AttemptsReader, AttemptsError> {
    if !data.join("attempts.db").is_file() {
        return Err(AttemptsError::NoneKept(data.to_owned()));
    }
    Ok(AttemptsReader::open(data)?)
}

fn verdict(row: &Attempt) -> &'static str {
    row.verdict().map_or("no end", |verdict| verdict.as_str())
}

fn ended(started: Time, end: &Ended) -> String {
    let took = Duration::from_millis(end.ended.0.saturating_sub(started.0));
    let status = end.status.map_or_else(|| "no answer".to_owned(), |status| format!("HTTP {status}"));
    let finish = end.finish.as_ref().map(|finish| format!(", finish {finish}")).unwrap_or_default();
    let id = end.request_id.as_ref().map(|id| format!(", request id {id}")).unwrap_or_default();
    format!("after {took:?}, {status}{finish}{id}")
}

fn tokens(tokens: &Tokens) -> String {
    let count = |usage: &Usage| {
        let each = [
            ("read", usage.input),
            ("read from a cache", usage.cache_read),
            ("written to a cache", usage.cache_write),
            ("written", usage.output),
            ("of them thought", usage.reasoning),
        ];
        let known = each.iter().filter_map(|(what, count)| Some(format!("{} {what}", (*count)?)));
        known.collect::<Vec<_>>().join(", ")
    };
    match tokens {
        Tokens::Reported(usage) => count(usage),
        Tokens::Estimated(usage) => format!("at least {}, estimated from what came", count(usage)),
        Tokens::Unknown => "unknown, which is not zero".to_owned(),
    }
}

/// The recorded bytes as lines that are safe to print.
fn shown(evidence: &Evidence) -> Safe {
    let mut text = safe!["\nkept, redacted, text replaced by its <length>:\n"];
    let mut lines = |bytes: &[u8]| {
        for line in String::from_utf8_lossy(bytes).lines() {
            text.push(safe![Untrusted(line), "\n"]);
        }
    };
    lines(&evidence.head);
    if evidence.omitted > 0 {
        lines(format!("… {} bytes were not kept …", evidence.omitted).as_bytes());
    }
    lines(&evidence.tail);
    text
}

fn object(row: &Attempt, evidence: Option<&Evidence>) -> Value {
    let findings = row.end.as_ref().map(|end| end.findings.clone()).unwrap_or_default();
    let mut object = json!(row);
    object["verdict"] = json!(row.verdict());
    object["explained"] = json!(sentences(row.verdict(), &findings));
    if let Some(Evidence { head, omitted, tail }) = evidence {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        object["evidence"] = json!({"head": text(head), "omitted": omitted, "tail": text(tail)});
    }
    object
}

fn moment(time: Time) -> String {
    // A date of a wrong clock is shown as 1970.
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(time.0.min(253_402_300_799_000)));
    httpdate::fmt_http_date(time.unwrap_or(UNIX_EPOCH))
}
