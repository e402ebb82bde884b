//! Recorded answers of real providers pass byte by byte.

use crate::harness::{FORMATS, Gateway, request, route};
use crate::providers;
use std::path::PathBuf;
use turnstream_fake_provider::{Bytes, Provider, Raw, Reply, Script, Step};
use turnstream_llm::{Format, Head, Outcome, Profile, Reader, Repair, StreamEnd, StreamEvent, Transport};
use turnstream_provider::Route;

/// The recordings, which are not part of this repository: beside the checkout, or where a variable says.
pub(crate) fn directory() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures/provider");
    let named = std::env::var_os("TURNSTREAM_TEST_RECORDINGS").map(PathBuf::from);
    Some(named.unwrap_or(beside)).filter(|directory| directory.join("INDEX.tsv").exists())
}

pub(crate) fn read(format: Format, profile: &Profile, body: &[u8]) -> (Outcome, bool) {
    let (mut reader, mut events) = (Reader::new(format, profile, Head::stream()), Vec::new());
    reader.push(body, &mut events);
    let outcome = reader.end(Transport::Clean, &mut events);
    let is_tainted = events.iter().any(|event| matches!(event, StreamEvent::Tainted { .. }));
    (outcome, is_tainted)
}

/// Asks for one recording, with one attempt.
async fn pass(format: Format, profile: &Profile, body: &[u8]) -> crate::harness::Got {
    let raw =
        Raw { status: 200, content_type: "text/event-stream".to_owned(), body: Bytes::Binary(body.to_vec()) };
    let provider = Provider::start(Script::new([Step::new(Reply::Raw(raw))])).await.unwrap();
    let route = Route { attempts: 1, profile: profile.clone(), ..route(format, &provider) };
    Gateway::of(route).await.ask(format, &request(format, "go")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_recordings_pass_byte_by_byte_and_others_have_no_end() {
    let Some(directory) = directory() else {
        eprintln!("skipped: no recordings; TURNSTREAM_TEST_RECORDINGS names their directory");
        return;
    };
    let index = std::fs::read_to_string(directory.join("INDEX.tsv")).unwrap();
    let (mut equal, mut repaired, mut refused) = (0, 0, 0);
    let mut problems = Vec::new();
    for line in index.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let (format, _) = FORMATS.into_iter().find(|(format, _)| format.name() == fields[0]).unwrap();
        let body = std::fs::read(directory.join(fields[0]).join(fields[1])).unwrap();
        let profile = providers::profile(fields[2]);
        let (outcome, is_tainted) = read(format, profile, &body);
        let got = pass(format, profile, &body).await;
        let has_run_together =
            outcome.repairs.of(Repair::MissingBlankLine) + outcome.repairs.of(Repair::NotANumber) > 0;
        let is_sound = outcome.ended == StreamEnd::Complete && outcome.withheld.is_empty() && !is_tainted;
        // Some recordings have a second answer after the end of the first.
        let end = outcome.ignored_from.and_then(|at| usize::try_from(at).ok()).unwrap_or(body.len());
        if is_sound && (got.body == body || got.body == body[..end]) {
            equal += 1;
        } else if is_sound && (has_run_together || !body.ends_with(b"\n\n")) {
            // Rewritten frames, and the blank line at the end, have the same payloads.
            repaired += 1;
            let again = read(format, profile, &got.body).0;
            if (again.committed, again.usage, again.finish)
                != (outcome.committed, outcome.usage, outcome.finish)
            {
                problems.push(format!("{line}: repaired, and not the same"));
            }
        } else if is_sound {
            let text = got.text();
            let same = got.body.iter().zip(&body).take_while(|(one, other)| one == other).count();
            let end = &text[text.floor_char_boundary(same.saturating_sub(80))..];
            let end: String = end.chars().take(400).collect();
            problems.push(format!(
                "{fields:?}: differs at {same} of {}, got {}: {end}",
                body.len(),
                text.len()
            ));
        } else {
            refused += 1;
            if got.status == 200 && got.claims_an_end() {
                problems.push(format!("{line}: not whole, and has an end: {:?}", outcome.ended));
            }
        }
    }
    println!("equal {equal}, repaired {repaired}, refused {refused}");
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(equal > 0);
}
