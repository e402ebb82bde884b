//! The first line of an exported session. It says what follows, so that a truncated file is recognised.

use crate::cursor::{Generation, Seq};
use crate::fold::State;
use crate::id::{Counters, SessionId};
use crate::shared_error::SharedError;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The newest format that this version reads.
pub const FORMAT: u64 = TRIMMED;

/// The format of a log that was not trimmed.
const WHOLE: u64 = 1;
/// The format of a trimmed log. It cannot be understood without its base, so a reader that does not know
/// bases must refuse it.
const TRIMMED: u64 = 2;

/// The largest sequence number: no log gets there, and JSON readers are exact only up to it.
const LIMIT: Seq = Seq(1 << 53);

/// The `type` of a header, which no event has.
const TYPE: &str = "export";

/// What is in an exported file.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The version that wrote it.
    pub turnstream: String,
    /// The session.
    pub session: SessionId,
    /// Its agent.
    pub agent: String,
    /// The generation of the log that it was read from.
    pub generation: Generation,
    /// The first event in the file. More than 1 when the log had been trimmed.
    pub first: Seq,
    /// The last event in the file; the one before `first` when there is none.
    pub head: Seq,
    /// When it was written.
    pub exported: Time,
    /// How many events after `head` are not in the file, because something in them was still open.
    pub left_out: u64,
    /// The state before `first`, if the log was trimmed. A file of format 1 has none, even if it begins
    /// later.
    pub base: Option<Box<State>>,
}

/// A line that is not the header of a file that this version reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// It is something else.
    #[error(
        "it is not the header of an exported session, a JSON object with \"type\":\"export\"; `turnstream export SESSION` \
         writes such a file"
    )]
    NotAHeader,
    /// It is the header of a later format.
    #[error("the file has format {found}, and this version reads up to {FORMAT}; use a newer turnstream")]
    Newer {
        /// Its format.
        found: u64,
    },
    /// A member is missing or cannot be read.
    #[error("the header cannot be read: {0}")]
    Malformed(#[source] SharedError),
    /// The state before the first event is not what a trim leaves of this session.
    #[error("the header cannot be read: its base {0}")]
    BadBase(#[source] SharedError),
}

#[derive(Serialize, Deserialize)]
struct Line {
    r#type: String,
    format: u64,
    turnstream: String,
    session: SessionId,
    agent: String,
    generation: Generation,
    first: Seq,
    head: Seq,
    exported: Time,
    #[serde(default, skip_serializing_if = "is_zero")]
    left_out: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base: Option<Value>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Header {
    /// The line, without its ending.
    pub fn to_json(&self) -> String {
        let Self { turnstream, session, agent, generation, first, head, exported, left_out, base } =
            self.clone();
        let format = if base.is_some() { TRIMMED } else { WHOLE };
        let line = Line {
            r#type: TYPE.to_owned(),
            format,
            turnstream,
            session,
            agent,
            generation,
            first,
            head,
            exported,
            left_out,
            // Types of the model with string keys: serde_json refuses none of them.
            base: base.map(|base| serde_json::to_value(base).unwrap_or_default()),
        };
        // Strings, numbers and JSON values: serde_json refuses none of them.
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// Reads the line. Unknown members are ignored.
    pub fn from_json(line: &str) -> Result<Self, HeaderError> {
        let members: Map<String, Value> =
            turnstream_json::from_str(line).map_err(|_| HeaderError::NotAHeader)?;
        if members.get("type").and_then(Value::as_str) != Some(TYPE) {
            return Err(HeaderError::NotAHeader);
        }
        // Checked first, because a later format may have other members.
        if let Some(found) = members.get("format").and_then(Value::as_u64).filter(|format| *format > FORMAT) {
            return Err(HeaderError::Newer { found });
        }
        let malformed = |problem: String| HeaderError::Malformed(SharedError::new(problem));
        let line: Line = serde_json::from_value(Value::Object(members))
            .map_err(|error| HeaderError::Malformed(SharedError::new(error)))?;
        let Line {
            r#type: _,
            format,
            turnstream,
            session,
            agent,
            generation,
            first,
            head,
            exported,
            left_out,
            base,
        } = line;
        let base = match (format, base) {
            (0, _) => return Err(malformed("formats begin at 1".to_owned())),
            // Format 1 has no base, so this is an unknown member.
            (WHOLE, _) => None,
            (_, None) => return Err(malformed("format 2 has a base".to_owned())),
            (_, Some(base)) => Some(Box::new(read_base(base, &session, first)?)),
        };
        let is_empty = base.is_some() && head.0.checked_add(1) == Some(first.0);
        if first.0 == 0 || head < first && !is_empty {
            return Err(malformed(format!("it names events {first} to {head}")));
        }
        Ok(Self { turnstream, session, agent, generation, first, head, exported, left_out, base })
    }
}

/// A base must be exactly what a trim before that event leaves of this session.
fn read_base(base: Value, session: &SessionId, first: Seq) -> Result<State, HeaderError> {
    let malformed = |problem: String| HeaderError::BadBase(SharedError::new(problem));
    let base: State =
        serde_json::from_value(base).map_err(|error| HeaderError::BadBase(SharedError::new(error)))?;
    if base.seq == Seq(0) || base.seq >= LIMIT || base.seq.next() != first {
        return Err(malformed(format!("ends with event {}, and the file begins with {first}", base.seq)));
    }
    if base.session.id.as_ref() != Some(session) {
        let of = base.session.id.as_ref().map_or("no session".to_owned(), |id| format!("session {id}"));
        return Err(malformed(format!("is of {of}, and the header of session {session}")));
    }
    let Counters { prompts, turns, attempts, items, approvals, questions } = base.counters;
    if [prompts, turns, attempts, items, approvals, questions].into_iter().any(|count| count > base.seq.0) {
        return Err(malformed(format!("counts more than its {} events can have named", base.seq)));
    }
    if !base.turns.is_empty() {
        return Err(malformed("has a turn, and logs are cut between turns".to_owned()));
    }
    let last = base.trimmed.unwrap_or(Time(0));
    let left = State { trimmed: base.trimmed, ..base.clone().trimmed(last).0 };
    if left != base {
        return Err(malformed("has something in it that was over".to_owned()));
    }
    Ok(base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::{SPENT_KEPT, Session, SpentKey};

    fn header() -> Header {
        Header {
            turnstream: "0.1.0".to_owned(),
            session: SessionId::from("ses_1"),
            agent: "opencode".to_owned(),
            generation: Generation::new("g1").unwrap(),
            first: Seq(1),
            head: Seq(41),
            exported: Time(1_794_771_760_000),
            left_out: 0,
            base: None,
        }
    }

    fn trimmed() -> Header {
        let session = Session { id: Some(SessionId::from("ses_1")), ..Session::default() };
        let (seq, counters) = (Seq(9), Counters { turns: 2, ..Counters::default() });
        let base = State { seq, session, counters, trimmed: Some(Time(7)), ..State::default() };
        Header { first: Seq(10), base: Some(Box::new(base)), ..header() }
    }

    const LINE: &str = r#"{"type":"export","format":1,"turnstream":"0.1.0","session":"ses_1","agent":"opencode","generation":"g1","first":1,"head":41,"exported":1794771760000}"#;

    #[test]
    fn a_header_is_one_line_and_comes_back_equal() {
        assert_eq!(header().to_json(), LINE);
        assert_eq!(Header::from_json(LINE), Ok(header()));
        let more = Header { left_out: 3, ..header() };
        assert_eq!(Header::from_json(&more.to_json()), Ok(more));
        let with_news = LINE.replace("\"first\"", "\"news\":[1],\"first\"");
        assert_eq!(Header::from_json(&with_news), Ok(header()), "additions are passed over");
        let with_base = LINE.replace("\"first\"", "\"base\":{\"seq\":9},\"first\"");
        assert_eq!(Header::from_json(&with_base), Ok(header()), "also one that only the next format knows");
    }

    #[test]
    fn what_is_no_header_is_told_from_one_of_a_later_format() {
        for other in ["", "[]", "{}", r#"{"seq":1,"type":"session.created"}"#, "{\"type\":\"export\""] {
            assert_eq!(Header::from_json(other), Err(HeaderError::NotAHeader), "{other}");
        }
        let newer = r#"{"type":"export","format":3,"events":{}}"#;
        assert_eq!(Header::from_json(newer), Err(HeaderError::Newer { found: 3 }));
        for (part, other) in [
            ("\"format\":1", "\"format\":0"),
            ("\"format\":1", "\"format\":\"1\""),
            ("\"first\":1", "\"first\":0"),
            ("\"first\":1", "\"first\":42"),
            ("\"head\":41,", ""),
            ("\"session\":\"ses_1\"", "\"session\":\"\""),
        ] {
            let line = LINE.replace(part, other);
            assert!(matches!(Header::from_json(&line), Err(HeaderError::Malformed(_))), "{line}");
        }
    }

    #[test]
    fn a_header_with_a_base_has_a_format_that_earlier_versions_refuse() {
        let line = trimmed().to_json();
        assert!(line.starts_with(r#"{"type":"export","format":2,"#), "{line}");
        assert_eq!(Header::from_json(&line), Ok(trimmed()));
        let nothing_left = Header { head: Seq(9), ..trimmed() };
        assert_eq!(Header::from_json(&nothing_left.to_json()), Ok(nothing_left));
        let refused = |header: Header, part: &str| {
            let error = Header::from_json(&header.to_json()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        refused(Header { head: Seq(8), ..trimmed() }, "it names events 10 to 8");
        refused(Header { first: Seq(11), ..trimmed() }, "its base ends with event 9");
        refused(Header { session: SessionId::from("ses_2"), ..trimmed() }, "is of session ses_1");
        let of_nobody = State { session: Session::default(), ..*trimmed().base.unwrap() };
        refused(Header { base: Some(Box::new(of_nobody)), ..trimmed() }, "is of no session");
        let spent = (0..=SPENT_KEPT).map(|number| SpentKey { key: number.to_string(), prompt: "p1".into() });
        let too_much = State { spent: spent.collect(), ..*trimmed().base.unwrap() };
        refused(Header { base: Some(Box::new(too_much)), ..trimmed() }, "something in it that was over");
        let counters = Counters { items: 10, ..Counters::default() };
        let uncounted = State { counters, ..*trimmed().base.unwrap() };
        refused(Header { base: Some(Box::new(uncounted)), ..trimmed() }, "more than its 9 events");
        let far = State { seq: Seq(u64::MAX), ..*trimmed().base.unwrap() };
        refused(Header { base: Some(Box::new(far)), ..trimmed() }, "its base ends with event");
        let without = line.replace("\"base\"", "\"other\"");
        assert_eq!(
            Header::from_json(&without),
            Err(HeaderError::Malformed(SharedError::new("format 2 has a base")))
        );
    }
}
