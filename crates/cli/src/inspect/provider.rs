//! Explains a provider's stream from a file.

use crate::escape::{self, Safe, Untrusted, safe};
use crate::input::{Input, InputError};
use serde_json::json;
use std::io::BufRead;
use turnstream_llm::account::{ReceivedBytes, findings, sentences};
use turnstream_llm::classify::Answer;
use turnstream_llm::delay::Headers;
use turnstream_llm::{Format, Head, Outcome, Profile, Reader, StreamEnd, Transport};
use turnstream_model::attempts::Verdict;
use turnstream_model::time::Time;

/// Reads the whole stream and prints its outcome. A file does not tell how the connection ended, so a clean
/// end is assumed.
pub(super) fn explain(
    mut input: Input,
    format: Format,
    profile: &Profile,
    as_json: bool,
) -> Result<Safe, InputError> {
    let mut reader = Reader::new(format, profile, Head::stream());
    let (mut events, mut received) = (Vec::new(), ReceivedBytes::default());
    let mut count = |events: &mut Vec<_>| events.drain(..).for_each(|event| received.count(&event));
    loop {
        let Input { name, reader: file } = &mut input;
        let read = file.fill_buf().map_err(|error| InputError::unreadable(name, error))?;
        if read.is_empty() {
            break;
        }
        reader.push(read, &mut events);
        count(&mut events);
        let length = read.len();
        file.consume(length);
    }
    let outcome = reader.end(Transport::Clean, &mut events);
    count(&mut events);
    Ok(if as_json { object(&outcome, &received) } else { text(&outcome, &received) })
}

/// The name of the outcome, and the reason.
fn verdict(outcome: &Outcome) -> (Verdict, String) {
    let headers = Headers::default();
    let failure = Answer { status: 200, headers: &headers, now: Time(0) }.outcome(outcome);
    let is_kept = !outcome.runnable().is_empty();
    match failure {
        None => (Verdict::Complete, "complete".to_owned()),
        Some(failure) => {
            let verdict = if is_kept { Verdict::Truncated } else { Verdict::Failed };
            (verdict, format!("{}: {}", failure.class, failure.message))
        }
    }
}

fn text(outcome: &Outcome, received: &ReceivedBytes) -> Safe {
    let (verdict, why) = verdict(outcome);
    let finish = outcome.finish.as_ref().map_or("none", |finish| finish.raw.as_str());
    let mut text = safe![Untrusted(&why), "\n"];
    text.push(safe![outcome.bytes, " bytes, ", outcome.events, " events, finish ", Untrusted(finish), "\n"]);
    for sentence in sentences(Some(verdict), &findings(outcome, received)) {
        text.push(safe!["- ", Untrusted(&sentence), "\n"]);
    }
    let runnable = outcome.runnable();
    for call in &runnable {
        let arguments = Untrusted(&call.arguments).preview(100);
        text.push(safe!["  may run: ", Untrusted(&call.name), " ", arguments, "\n"]);
    }
    if outcome.ended == StreamEnd::Complete && outcome.call_in_text {
        text.push("- Its text has the look of a tool call. It is only text, and runs nothing.\n");
    }
    text
}

fn object(outcome: &Outcome, received: &ReceivedBytes) -> Safe {
    let (verdict, why) = verdict(outcome);
    let findings = findings(outcome, received);
    let object = json!({
        "verdict": verdict,
        "why": why,
        "finish": outcome.finish.as_ref().map(|finish| &finish.raw),
        "explained": sentences(Some(verdict), &findings),
        "findings": findings,
    });
    safe![escape::json(&object.to_string()), "\n"]
}
