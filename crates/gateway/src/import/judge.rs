//! Reads a file whole, before anything of it is in the log: every line an event in its place, no law broken, nothing open
//! at the end.

use super::error::{BadFile, Fault, ImportError};
use super::ids::Ids;
use super::lines::Lines;
use crate::error::RequestError;
use std::fs::File;
use std::io::Seek;
use turnstream_model::check::{Checker, Tail, Violation};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Body, Event};
use turnstream_model::export::{Header, HeaderError, Settled};

/// Lines after which it is looked whether the gateway closes.
const PATIENT_LINES: usize = 1_024;

/// A file that can be imported.
pub(super) struct Judged {
    pub(super) header: Header,
    /// How the agent called the session at last.
    pub(super) native_id: Option<String>,
    /// The line with the longest event.
    pub(super) longest: usize,
}

/// The books of one file.
struct Judge {
    header: Header,
    checker: Checker,
    settled: Settled,
    ids: Ids,
    native_id: Option<String>,
    /// The last event so far; before the first one, the last that is not in the file.
    last: Seq,
    longest: (usize, usize),
}

/// Judges it from its beginning on.
pub(super) fn judge(file: &mut File, is_closing: impl Fn() -> bool) -> Result<Judged, ImportError> {
    file.rewind().map_err(ImportError::spool)?;
    let mut lines = Lines::new(file);
    let mut judge = match lines.next()? {
        None => return Err(bad(1, Fault::Damaged, "the file is empty".to_owned()).into()),
        Some(text) => Judge::new(text)?,
    };
    while let Some(text) = lines.next()? {
        let text = text.to_owned();
        judge.line(&text, &lines)?;
        if lines.line.is_multiple_of(PATIENT_LINES) && is_closing() {
            return Err(RequestError::Closing.into());
        }
    }
    Ok(judge.finish(lines.line)?)
}

impl Judge {
    fn new(text: &str) -> Result<Self, BadFile> {
        let header = Header::from_json(text).map_err(|error| {
            let fault = match error {
                HeaderError::NotAHeader | HeaderError::Malformed(_) => Fault::Damaged,
                HeaderError::Newer { .. } => Fault::Newer,
            };
            bad(1, fault, error.to_string())
        })?;
        let base = header.base.as_deref().cloned().unwrap_or_default();
        if header.first != base.seq.next() {
            let problem = format!(
                "the file begins with event {} and does not say what was before it, because the log had been trimmed and \
                 an older version exported it; export it again",
                header.first
            );
            return Err(bad(1, Fault::Trimmed, problem));
        }
        let mut checker = Checker::new();
        checker.line(text);
        Ok(Self {
            header,
            checker,
            settled: Settled::after(&base),
            ids: Ids::after(&base),
            native_id: base.session.native_id,
            last: base.seq,
            longest: (0, 0),
        })
    }

    fn line(&mut self, text: &str, lines: &Lines<&mut File>) -> Result<(), BadFile> {
        if text.trim().is_empty() {
            self.checker.line(text);
            return Ok(());
        }
        let event =
            Event::from_json(text).map_err(|error| lines.damaged(format!("it is no event: {error}")))?;
        // As it will stand in the log: a member that is null is none there.
        self.checker.line(&event.to_json());
        let expected = self.last.next();
        if event.seq != expected {
            return Err(lines.damaged(format!("event {expected} is missing: this is event {}", event.seq)));
        }
        if event.seq > self.header.head {
            let head = self.header.head;
            return Err(lines.damaged(format!("the header says that event {head} is the last one")));
        }
        if let Some(violation) = self.checker.take_violations().into_iter().next() {
            return Err(unlawful(violation));
        }
        if let Body::SessionCreated { session, .. } = &event.draft.body
            && *session != self.header.session
        {
            let of = &self.header.session;
            return Err(lines.damaged(format!("it is of session {session}, and the header of session {of}")));
        }
        if let Body::SessionUpdated(patch) = &event.draft.body
            && patch.native_id.is_some()
        {
            self.native_id.clone_from(&patch.native_id);
        }
        self.settled.apply(&event);
        self.ids.event(lines.line, &event);
        self.last = event.seq;
        self.longest = self.longest.max((lines.length(), lines.line));
        Ok(())
    }

    fn finish(self, line: usize) -> Result<Judged, BadFile> {
        let Self { header, checker, settled, ids, native_id, last, longest } = self;
        if last != header.head {
            let is_empty = last < header.first;
            let ends = if is_empty { "without an event".to_owned() } else { format!("with event {last}") };
            let problem =
                format!("the file ends here {ends}, and its header says {}: it was cut off", header.head);
            return Err(bad(line, Fault::CutOff, problem));
        }
        if let Some(open) = settled.open() {
            return Err(bad(line, Fault::Open, format!("the file ends while {open} is open")));
        }
        if let Some(violation) = checker.finish(Tail::Settled).violations.into_iter().next() {
            return Err(unlawful(violation));
        }
        if let Some((line, id)) = ids.repeated() {
            let problem = format!("{id} begins here, and it is open where the file begins");
            return Err(bad(line, Fault::Unlawful, problem));
        }
        if let Some((line, id)) = ids.reused() {
            let problem = format!("{id} is further than ids have been counted, and would be given again");
            return Err(bad(line, Fault::Unlawful, problem));
        }
        Ok(Judged { header, native_id, longest: longest.1 })
    }
}

fn unlawful(violation: Violation) -> BadFile {
    let Violation { line, seq: _, law, message } = violation;
    bad(line, Fault::Unlawful, format!("{law}: {message}"))
}

fn bad(line: usize, fault: Fault, problem: String) -> BadFile {
    BadFile { line, fault, problem }
}
