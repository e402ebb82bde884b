//! Reads a log and reports every law it breaks. It reads the JSON itself and shares no code with machine,
//! fold and decoder, which it judges.

mod ask;
mod attempt;
mod budget;
mod item;
mod lifecycle;
mod notice;
mod prompt;
mod session;
mod shape;
mod turn;
mod unattended;
mod usage;

use lifecycle::Lifecycle;
use serde_json::{Map, Value};
use std::fmt;

/// A rule that a log must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// A line is not an event, or not of the shape of the wire.
    Shape,
    /// Sequence numbers are contiguous from 1.
    Seq,
    /// L1: every started turn ends once, and nothing follows its end.
    OneEnd,
    /// L2: a turn ends only if it was seen to start.
    EvidenceBeforeIdle,
    /// Items start once, end once, change only in between.
    Item,
    /// Model calls start once, end or are superseded once.
    Attempt,
    /// Superseding voids what it names, and only that.
    Superseding,
    /// Approvals and questions are settled once.
    Wait,
    /// Prompts have one outcome.
    Prompt,
    /// L7: what may have lost bytes is never whole.
    Taint,
    /// The usage and cost of a turn are at least what its model calls took.
    Usage,
    /// A session that has reached a cap gets no prompt until its caps are set again.
    Budget,
    /// A parked session sends nothing, and a failed turn is continued once at most.
    Continuation,
    /// A session begins once, ends once, and its status is true.
    Session,
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shape => "shape",
            Self::Seq => "seq",
            Self::OneEnd => "L1 one end",
            Self::EvidenceBeforeIdle => "L2 evidence before idle",
            Self::Item => "item lifecycle",
            Self::Attempt => "attempt lifecycle",
            Self::Superseding => "superseding",
            Self::Wait => "approval lifecycle",
            Self::Prompt => "prompt lifecycle",
            Self::Taint => "L7 taint",
            Self::Usage => "usage",
            Self::Budget => "budget",
            Self::Continuation => "continuation",
            Self::Session => "session lifecycle",
        })
    }
}

/// One broken law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The line of the log, from 1; the number of lines for what is missing at its end.
    pub line: usize,
    /// The event's sequence number, if it has one.
    pub seq: Option<u64>,
    /// The law that is broken.
    pub law: Law,
    /// What is wrong, with the ids it is about.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(seq) = self.seq {
            write!(f, ", seq {seq}")?;
        }
        write!(f, ": {}: {}", self.law, self.message)
    }
}

/// Whether the session of a log still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// More may come: what is open at the end is no violation.
    Live,
    /// Nothing more will come: every turn must have ended.
    Settled,
}

/// Checks a log line by line.
#[derive(Default)]
pub struct Checker {
    lines: usize,
    events: usize,
    last_seq: Option<u64>,
    /// The last event that a header promises.
    promised: Option<u64>,
    lifecycle: Lifecycle,
    violations: Vec<Violation>,
}

/// What a log was like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How many events it has.
    pub events: usize,
    /// How many turns it has.
    pub turns: usize,
    /// The violations, in the order of the log, without those that were taken before.
    pub violations: Vec<Violation>,
}

/// The beginning of a text, for a message about it.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 120;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl Checker {
    /// A checker that has read nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks one line. Blank lines are skipped. The first line of an export may be a header, with a member
    /// `turnstream`. If the header names the last event (`head`), the log must end with it.
    pub fn line(&mut self, line: &str) {
        self.lines += 1;
        if line.trim().is_empty() {
            return;
        }
        match turnstream_json::from_str::<Value>(line) {
            Ok(Value::Object(event)) => {
                if self.lines > 1 || !event.contains_key("turnstream") {
                    self.event(&event);
                } else {
                    self.header(&event);
                }
            }
            Ok(other) => {
                self.report(
                    None,
                    Law::Shape,
                    format!("not a JSON object: {}", shortened(&other.to_string())),
                );
            }
            Err(error) => {
                // The error also has a line number, which is always 1.
                let column = error.column();
                self.report(None, Law::Shape, format!("not JSON, by its byte {column}: {}", shortened(line)));
            }
        }
    }

    /// The header of a trimmed log also names the last event that was removed.
    fn header(&mut self, header: &Map<String, Value>) {
        self.promised = header.get("head").and_then(Value::as_u64);
        let format = header.get("format").and_then(Value::as_u64).unwrap_or(1);
        let base = header.get("base").filter(|_| format > 1).and_then(|base| base.get("seq"));
        if let Some(seq) = base.and_then(Value::as_u64) {
            self.lifecycle.set_trimmed();
            self.last_seq = Some(seq);
        }
    }

    /// Reports a line that is not valid text.
    pub fn unreadable_line(&mut self, problem: &str) {
        self.lines += 1;
        self.report(None, Law::Shape, problem.to_owned());
    }

    fn event(&mut self, event: &Map<String, Value>) {
        self.events += 1;
        let seq = event.get("seq").and_then(Value::as_u64);
        self.seq(seq);
        if !event.get("time").is_some_and(Value::is_u64) {
            self.report(seq, Law::Shape, "member \"time\" must be there, in Unix milliseconds".to_owned());
        }
        let Some(r#type) = event.get("type").and_then(Value::as_str) else {
            self.report(seq, Law::Shape, "member \"type\" is missing".to_owned());
            return;
        };
        for problem in shape::problems(r#type, event) {
            self.report(seq, Law::Shape, format!("{type}: {problem}"));
        }
        let mut found = Vec::new();
        self.lifecycle.event(r#type, event, seq == Some(1), &mut found);
        for (law, message) in found {
            self.report(seq, law, message);
        }
    }

    /// A trimmed log may begin later than 1, but has no holes.
    fn seq(&mut self, seq: Option<u64>) {
        let Some(seq) = seq else {
            self.report(None, Law::Seq, "member \"seq\" must be there, a whole number".to_owned());
            return;
        };
        if seq == 0 {
            self.report(Some(seq), Law::Seq, "sequence numbers begin at 1".to_owned());
        }
        if let Some(last) = self.last_seq
            && Some(seq) != last.checked_add(1)
        {
            self.report(Some(seq), Law::Seq, format!("{seq} follows {last}"));
        }
        if self.last_seq.is_none() && seq > 1 {
            self.lifecycle.set_trimmed();
        }
        self.last_seq = Some(seq);
    }

    fn report(&mut self, seq: Option<u64>, law: Law, message: String) {
        self.violations.push(Violation { line: self.lines, seq, law, message });
    }

    /// Takes the violations found since the last call, so that a long log can be checked in pieces.
    pub fn take_violations(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }

    /// The log has ended.
    pub fn finish(mut self, tail: Tail) -> Report {
        if let Some(promised) = self.promised
            && self.last_seq != Some(promised)
        {
            let last = self.last_seq.map_or("no event".to_owned(), |seq| format!("event {seq}"));
            let message = format!(
                "the log ends with {last}, and its header says {promised}: it was cut off or added to"
            );
            self.report(None, Law::Seq, message);
        }
        if tail == Tail::Settled {
            let mut found = Vec::new();
            self.lifecycle.end_of_log(&mut found);
            for (law, message) in found {
                self.report(None, law, message);
            }
        }
        Report { events: self.events, turns: self.lifecycle.turns(), violations: self.violations }
    }
}
