//! Validation of a whole file before any of it is imported: every line is the next event, no law is broken,
//! and nothing is open at the end.

use super::error::{BadFile, Fault, ImportError};
use super::ids::Ids;
use super::lines::Lines;
use crate::settings::TextLengths;
use crate::short_texts;
use std::fs::File;
use std::io::Seek;
use turnstream_model::check::{Checker, Tail, Violation};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Body, Event};
use turnstream_model::export::{Header, HeaderError, Settled};
use turnstream_model::fold::Session;
use turnstream_model::time::Time;

/// Lines between two checks whether the import may go on.
const CHECK_EVERY: usize = 1_024;

/// A file that can be imported.
pub(super) struct ValidFile {
    pub(super) header: Header,
    /// The session after the last event.
    pub(super) session: Session,
    /// The latest time of an event; without events, the beginning of time.
    pub(super) last: Time,
    /// The line with the longest event.
    pub(super) longest: usize,
}

/// The validation of one file.
struct Validator {
    header: Header,
    checker: Checker,
    settled: Settled,
    ids: Ids,
    session: Session,
    /// The last event so far, and the latest time; at the beginning, the event before the file.
    last: (Seq, Time),
    longest: (usize, usize),
    texts: TextLengths,
}

/// Validates a file from its beginning.
/// `may_go_on` is asked now and then; its error ends the validation.
pub(super) fn validate(
    file: &mut File,
    texts: TextLengths,
    may_go_on: impl Fn() -> Result<(), ImportError>,
) -> Result<ValidFile, ImportError> {
    file.rewind().map_err(ImportError::spool)?;
    let mut lines = Lines::new(file);
    let mut validator = match lines.next()? {
        None => return Err(bad(1, Fault::Damaged, "the file is empty".to_owned()).into()),
        Some(text) => Validator::new(text, texts)?,
    };
    while let Some(text) = lines.next()? {
        let text = text.to_owned();
        validator.line(&text, &lines)?;
        if lines.line.is_multiple_of(CHECK_EVERY) {
            may_go_on()?;
        }
    }
    Ok(validator.finish(lines.line)?)
}

impl Validator {
    fn new(text: &str, texts: TextLengths) -> Result<Self, BadFile> {
        let header = Header::from_json(text).map_err(|error| {
            let fault = match error {
                HeaderError::NotAHeader | HeaderError::Malformed(_) | HeaderError::BadBase(_) => {
                    Fault::Damaged
                }
                HeaderError::Newer { .. } => Fault::Newer,
            };
            bad(1, fault, error.to_string())
        })?;
        let base = header.base.as_deref().cloned().unwrap_or_default();
        if header.first != base.seq.next() {
            let problem = format!(
                "the file begins with event {} and does not have the state before it, because an older version exported a \
                 trimmed log; export it again",
                header.first
            );
            return Err(bad(1, Fault::Trimmed, problem));
        }
        short_texts::check_state(&base, &texts).map_err(|problem| bad(1, Fault::TooLong, problem))?;
        let mut checker = Checker::new();
        checker.line(text);
        Ok(Self {
            header,
            checker,
            settled: Settled::after(&base),
            ids: Ids::after(&base),
            session: base.session,
            last: (base.seq, Time(0)),
            longest: (0, 0),
            texts,
        })
    }

    fn line(&mut self, text: &str, lines: &Lines<&mut File>) -> Result<(), BadFile> {
        if text.trim().is_empty() {
            self.checker.line(text);
            return Ok(());
        }
        let event =
            Event::from_json(text).map_err(|error| lines.damaged(format!("it is not an event: {error}")))?;
        // Checked as it will be in the log, where a member that is null is left out.
        self.checker.line(&event.to_json());
        let expected = self.last.0.next();
        if event.seq != expected {
            return Err(lines.damaged(format!("event {expected} is missing, this is event {}", event.seq)));
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
            return Err(
                lines.damaged(format!("the event names session {session}, and the header session {of}"))
            );
        }
        self.session.apply(&event.draft.body, event.time);
        short_texts::check_event(&event.draft.body, &self.texts)
            .map_err(|problem| bad(lines.line, Fault::TooLong, problem))?;
        self.settled.apply(&event);
        self.ids.event(lines.line, &event);
        self.last = (event.seq, event.time.max(self.last.1));
        self.longest = self.longest.max((lines.length(), lines.line));
        Ok(())
    }

    fn finish(self, line: usize) -> Result<ValidFile, BadFile> {
        let Self { header, checker, settled, ids, session, last: (last, time), longest, texts: _ } = self;
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
            let problem = format!("{id} begins here, and it is already open at the beginning of the file");
            return Err(bad(line, Fault::Unlawful, problem));
        }
        if let Some((line, id)) = ids.reused() {
            let problem = format!("{id} is ahead of the number of ids, so the session would use it again");
            return Err(bad(line, Fault::Unlawful, problem));
        }
        Ok(ValidFile { header, session, last: time, longest: longest.1 })
    }
}

fn unlawful(violation: Violation) -> BadFile {
    let Violation { line, seq: _, law, message } = violation;
    bad(line, Fault::Unlawful, format!("{law}: {message}"))
}

fn bad(line: usize, fault: Fault, problem: String) -> BadFile {
    BadFile { line, fault, problem }
}
