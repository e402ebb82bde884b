//! A report of one attempt for the provider's support. It is made of times, ids, counts and offsets only: no
//! prompt, no answer, no key, and no name that a user or a model chose.

use crate::escape::{Safe, Untrusted, safe};
use crate::exit::class_meaning;
use crate::moment::to_the_second;
use turnstream_model::attempts::{Attempt, Completion, Count, Ended, Findings, Loss, Verdict};
use turnstream_model::time::Time;

/// Columns of the name of a line.
const NAME: usize = 14;
/// Ids of providers have up to 200 bytes.
const LONGEST_WORD: usize = 200;

/// The report.
pub(super) fn of(attempt: &Attempt) -> Safe {
    let mut report = Report(Safe::default());
    let begun = &attempt.begun;
    report.text(safe!["Report of a model request, by turnstream ", env!("CARGO_PKG_VERSION")]);
    report.text(safe!["It has no prompt, no answer and no key."]);
    report.heading("Request");
    report.line("name", &begun.name.to_string());
    report.line("sent", &utc(begun.started));
    report.line("format", &begun.format);
    report.line("model", &begun.model);
    report.line("body", &format!("SHA-256 {}", begun.request));
    report.heading("Answer");
    match &attempt.end {
        Some(end) => report.answer(begun.started, end),
        None if attempt.verdict() == Some(Verdict::Unknown) => {
            report.line("end", "not known: the program that asked was stopped");
        }
        None => report.line("end", "none yet"),
    }
    report.0
}

struct Report(Safe);

impl Report {
    fn text(&mut self, text: Safe) {
        self.0.push(safe![text, "\n"]);
    }

    fn heading(&mut self, text: &'static str) {
        self.text(safe!["\n", text]);
    }

    fn line(&mut self, name: &'static str, value: &str) {
        self.text(safe!["  ", safe![name].padded(NAME), Untrusted(value)]);
    }

    fn answer(&mut self, started: Time, end: &Ended) {
        let status = end.status.map_or_else(|| "none".to_owned(), |status| status.to_string());
        self.line("HTTP status", &status);
        self.line("request id", &word(end.request_id.as_deref().unwrap_or("none")));
        let took = end.ended.0.saturating_sub(started.0);
        self.line("ended", &format!("{}, {took} ms after the request", utc(end.ended)));
        self.line("verdict", end.verdict.as_str());
        if let Some(class) = end.class {
            self.line("class", &format!("{class}: {}", class_meaning(class)));
        }
        self.line("finish", &word(end.finish.as_deref().unwrap_or("none")));
        let Findings { bytes, events, completions, anomalies, repairs, lost, committed: _ } = &end.findings;
        self.line("body", &format!("{bytes} bytes, {events} events"));
        self.headers(&end.headers);
        self.anomalies("Damage in the body", anomalies);
        self.anomalies("Damage that was mended without loss", repairs);
        self.completions(completions);
        self.losses(lost);
    }

    fn headers(&mut self, headers: &[(String, String)]) {
        self.heading("Headers of the answer");
        if headers.is_empty() {
            self.text(safe!["  none of those that are recorded"]);
        }
        for (name, value) in headers {
            self.text(safe!["  ", Untrusted(name), ": ", Untrusted(value)]);
        }
    }

    fn anomalies(&mut self, heading: &'static str, counts: &[Count]) {
        if counts.is_empty() {
            return;
        }
        self.heading(heading);
        for Count { what, times, at } in counts {
            let at = at.map_or_else(|| "at no known byte".to_owned(), |at| format!("from byte {at} on"));
            let times = if *times == 1 { String::new() } else { format!(", {times} times") };
            self.text(safe!["  ", Untrusted(what), " ", Untrusted(&at), Untrusted(&times)]);
        }
    }

    fn completions(&mut self, completions: &[Completion]) {
        if completions.is_empty() {
            return;
        }
        self.heading("Completions in the body");
        for Completion { id, from, to, whole } in completions {
            let id = id.as_deref().map_or_else(|| "without an id".to_owned(), word);
            let end = if *whole { "whole" } else { "without an end" };
            self.text(safe!["  ", Untrusted(&id), ": bytes ", *from, " to ", *to, ", ", end]);
        }
        if completions.len() > 1 {
            self.text(safe!["  One request was sent. It has one answer, so the others do not belong to it."]);
        }
    }

    /// Names of tools belong to the user, so they are left out.
    fn losses(&mut self, lost: &[Loss]) {
        if lost.is_empty() {
            return;
        }
        self.heading("Begun and not finished");
        for Loss { what, bytes, shown: _ } in lost {
            let what = match what.as_str() {
                "text" => "text",
                "reasoning" => "reasoning",
                _ => "a tool call",
            };
            self.text(safe!["  ", what, ": ", *bytes, " bytes came"]);
        }
    }
}

/// A word or an id of the provider. Damage can put text of a model in its place: then it is its length.
fn word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
    if text.len() <= LONGEST_WORD && text.bytes().all(is_plain) {
        text.to_owned()
    } else {
        format!("<{} bytes>", text.len())
    }
}

fn utc(time: Time) -> String {
    format!("{} UTC", to_the_second(time.0))
}

#[cfg(test)]
mod tests {
    use super::of;
    use turnstream_model::attempts::{
        Attempt, AttemptName, Begun, Completion, Count, Ended, Findings, Loss, Tokens, Verdict,
    };
    use turnstream_model::event::ErrorClass;
    use turnstream_model::time::Time;

    fn attempt() -> Attempt {
        let name = AttemptName { session: "ses_1".into(), turn: "p1".into(), number: 2 };
        let begun = Begun {
            name,
            step: 1,
            route: "main".to_owned(),
            format: "chat".to_owned(),
            model: "demo-model".to_owned(),
            request: "00ff".to_owned(),
            started: Time(1_794_825_005_000),
        };
        let completion = |id: &str, from, to| Completion { id: Some(id.to_owned()), from, to, whole: false };
        let findings = Findings {
            bytes: 900,
            events: 12,
            anomalies: vec![Count { what: "identity".to_owned(), times: 1, at: Some(512) }],
            completions: vec![completion("chatcmpl-1", 0, 512), completion("a cut id", 512, 900)],
            lost: vec![Loss { what: "delete_customer".to_owned(), bytes: 23, shown: false }],
            ..Findings::default()
        };
        let end = Ended {
            verdict: Verdict::Failed,
            class: Some(ErrorClass::StreamSpliced),
            problem: Some("the prompt said: hello".to_owned()),
            status: Some(200),
            request_id: Some("req_1".to_owned()),
            headers: vec![("cf-ray".to_owned(), "8f".to_owned())],
            finish: None,
            tokens: Tokens::Unknown,
            findings,
            ended: Time(1_794_825_006_250),
            evidence: None,
        };
        Attempt { begun, end: Some(end), orphaned: false, of: None }
    }

    #[test]
    fn a_report_has_ids_times_and_offsets_and_nobodys_words() {
        let expected = "\
Report of a model request, by turnstream 0.1.0
It has no prompt, no answer and no key.

Request
  name          ses_1/p1/2
  sent          2026-11-16 10:30:05 UTC
  format        chat
  model         demo-model
  body          SHA-256 00ff

Answer
  HTTP status   200
  request id    req_1
  ended         2026-11-16 10:30:06 UTC, 1250 ms after the request
  verdict       failed
  class         stream_spliced: two answers were joined into one
  finish        none
  body          900 bytes, 12 events

Headers of the answer
  cf-ray: 8f

Damage in the body
  identity from byte 512 on

Completions in the body
  chatcmpl-1: bytes 0 to 512, without an end
  <8 bytes>: bytes 512 to 900, without an end
  One request was sent. It has one answer, so the others do not belong to it.

Begun and not finished
  a tool call: 23 bytes came
";
        assert_eq!(of(&attempt()).as_str(), expected);
    }

    #[test]
    fn an_attempt_without_an_end_says_so() {
        let running = Attempt { end: None, ..attempt() };
        assert!(of(&running).as_str().ends_with("Answer\n  end           none yet\n"));
        let lost = Attempt { orphaned: true, ..running };
        assert!(of(&lost).as_str().contains("not known: the program that asked was stopped"));
    }
}
