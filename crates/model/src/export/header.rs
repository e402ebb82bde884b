//! The first line of an exported session. It says what follows, so that a file that was cut off is recognised.

use crate::cursor::{Generation, Seq};
use crate::id::SessionId;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The format that this version writes, and the newest that it reads.
pub const FORMAT: u64 = 1;

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
    /// The last event in the file.
    pub head: Seq,
    /// When it was written.
    pub exported: Time,
    /// Events of the log after `head` that belong to something that was not over, and are not in the file.
    pub left_out: u64,
    /// What the session was before `first`, for a log that had been trimmed.
    pub base: Option<Value>,
}

/// Why a line is not the header of a file that this version reads.
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
    Malformed(String),
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
        let (r#type, format) = (TYPE.to_owned(), FORMAT);
        let line = Line {
            r#type,
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
        };
        // Strings, numbers and what was JSON before: there is nothing in it that JSON refuses.
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// Reads the line. Members that are not known are passed over.
    pub fn from_json(line: &str) -> Result<Self, HeaderError> {
        let members: Map<String, Value> = serde_json::from_str(line).map_err(|_| HeaderError::NotAHeader)?;
        if members.get("type").and_then(Value::as_str) != Some(TYPE) {
            return Err(HeaderError::NotAHeader);
        }
        // Looked at first: a later format may have other members.
        if let Some(found) = members.get("format").and_then(Value::as_u64).filter(|format| *format > FORMAT) {
            return Err(HeaderError::Newer { found });
        }
        let malformed = |problem: String| HeaderError::Malformed(problem);
        let line: Line =
            serde_json::from_value(Value::Object(members)).map_err(|error| malformed(error.to_string()))?;
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
        if format == 0 {
            return Err(malformed("formats begin at 1".to_owned()));
        }
        if first.0 == 0 || head < first {
            return Err(malformed(format!("it names events {first} to {head}")));
        }
        Ok(Self { turnstream, session, agent, generation, first, head, exported, left_out, base })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    const LINE: &str = r#"{"type":"export","format":1,"turnstream":"0.1.0","session":"ses_1","agent":"opencode","generation":"g1","first":1,"head":41,"exported":1794771760000}"#;

    #[test]
    fn a_header_is_one_line_and_comes_back_equal() {
        assert_eq!(header().to_json(), LINE);
        assert_eq!(Header::from_json(LINE), Ok(header()));
        let more = Header { left_out: 3, base: Some(serde_json::json!({"seq": 9})), ..header() };
        assert_eq!(Header::from_json(&more.to_json()), Ok(more));
        let with_news = LINE.replace("\"first\"", "\"news\":[1],\"first\"");
        assert_eq!(Header::from_json(&with_news), Ok(header()), "additions are passed over");
    }

    #[test]
    fn what_is_no_header_is_told_from_one_of_a_later_format() {
        for other in ["", "[]", "{}", r#"{"seq":1,"type":"session.created"}"#, "{\"type\":\"export\""] {
            assert_eq!(Header::from_json(other), Err(HeaderError::NotAHeader), "{other}");
        }
        let newer = r#"{"type":"export","format":2,"events":{}}"#;
        assert_eq!(Header::from_json(newer), Err(HeaderError::Newer { found: 2 }));
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
}
