//! Compares what the reader makes of a recording with what the plain reader finds in it.

use crate::plain::{self, Plain};
use turnstream_llm::classify::Answer;
use turnstream_llm::delay::Headers;
use turnstream_llm::{Format, Head, Item, Outcome, Profile, Reader, StreamEnd, Transport};
use turnstream_model::time::Time;

/// The result for one recording.
pub(crate) struct Compared {
    pub(crate) verdict: Verdict,
    pub(crate) tainted: bool,
    /// Committed calls that the plain reader does not find.
    pub(crate) wrong_calls: u32,
    /// How a recording that was read whole differs from what the plain reader finds.
    pub(crate) difference: Option<String>,
}

pub(crate) enum Verdict {
    /// A whole recording, read whole.
    Whole,
    /// A whole recording that was refused, or calls of it.
    Refused(String),
    /// The recording ends with the provider's error, and the reader says so.
    Failed,
    /// The recording is cut, spliced, or has several answers.
    Broken(String),
}

pub(crate) fn compare(format: Format, profile: &Profile, bytes: &[u8]) -> Compared {
    let plain = plain::read(format, bytes);
    let mut reader = Reader::new(format, profile, Head::stream());
    let mut events = Vec::new();
    reader.push(bytes, &mut events);
    let outcome = reader.end(Transport::Clean, &mut events);
    let calls: Vec<(String, String)> =
        outcome.runnable().into_iter().map(|call| (call.name.clone(), call.arguments.clone())).collect();
    let wrong_calls = calls.iter().filter(|call| !plain.calls.contains(call)).count() as u32;
    let tainted = outcome.anomaly_count > 0;
    let headers = Headers::default();
    let answer = Answer { status: 200, headers: &headers, now: Time::default() };
    let verdict = match (&plain.broken, plain.failed, &outcome.ended) {
        (Some(why), _, _) => Verdict::Broken(format!("{why}; read as {}", end(&outcome))),
        (None, true, StreamEnd::Failed(_)) => Verdict::Failed,
        (None, false, StreamEnd::Complete) if outcome.withheld.is_empty() || !plain.may_call => {
            // A client asks again after an unknown finish, or if the answer says nothing.
            match answer.outcome(&outcome) {
                None => Verdict::Whole,
                Some(failure) => Verdict::Refused(format!("{}: {}", failure.class, failure.message)),
            }
        }
        (None, _, _) => Verdict::Refused(end(&outcome)),
    };
    let difference = match verdict {
        Verdict::Whole => difference(&plain, &calls, &outcome),
        Verdict::Refused(_) | Verdict::Failed | Verdict::Broken(_) => None,
    };
    Compared { verdict, tainted, wrong_calls, difference }
}

fn difference(plain: &Plain, calls: &[(String, String)], outcome: &Outcome) -> Option<String> {
    let (mut text, mut reasoning) = (String::new(), String::new());
    for item in &outcome.committed {
        match item {
            Item::Message { text: more, .. } => text.push_str(more),
            Item::Reasoning { text: more, .. } => reasoning.push_str(more),
            Item::Call(_) | Item::Other { .. } => {}
        }
    }
    let differs = |what: &str, ours: &str, theirs: &str| {
        let same = ours.bytes().zip(theirs.bytes()).take_while(|(ours, theirs)| ours == theirs).count();
        (ours != theirs)
            .then(|| format!("{what}: {} bytes of {}, equal up to {same}", ours.len(), theirs.len()))
    };
    differs("text", &text, &plain.text)
        .or_else(|| differs("reasoning", &reasoning, &plain.reasoning))
        .or_else(|| {
            let missing = plain.may_call && calls.len() != plain.calls.len();
            missing.then(|| format!("{} calls of {}", calls.len(), plain.calls.len()))
        })
}

fn end(outcome: &Outcome) -> String {
    let name = match &outcome.ended {
        StreamEnd::Complete => "complete".to_owned(),
        StreamEnd::Failed(error) => format!("failed ({})", error.message),
        StreamEnd::Spliced => "spliced".to_owned(),
        StreamEnd::Corrupt => "corrupt".to_owned(),
        StreamEnd::Incomplete => "incomplete".to_owned(),
        StreamEnd::NotAStream(_) => "not a stream".to_owned(),
    };
    let mut signs: Vec<String> = Vec::new();
    signs.extend(
        outcome.anomalies.iter().take(2).map(|damage| format!("{:?} at {}", damage.kind, damage.range.start)),
    );
    signs.extend(
        outcome.identity.findings.iter().take(1).map(|sign| format!("{:?} at {}", sign.evidence, sign.at)),
    );
    signs.extend(
        outcome.withheld.iter().take(2).map(|call| format!("{} withheld: {:?}", call.name, call.reason)),
    );
    if let Some(finish) = &outcome.finish {
        signs.push(format!("finish {:?}", finish.raw));
    }
    if signs.is_empty() { name } else { format!("{name} ({})", signs.join(", ")) }
}
