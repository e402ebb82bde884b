//! The name of an attempt: `SESSION/TURN/NUMBER`.

use crate::id::{SessionId, TurnId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Names one attempt for ever. Numbers count the attempts of a turn from 1, over all its steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptName {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// Which of the turn's attempts, from 1.
    pub number: u32,
}

/// A text that is not the name of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no attempt; write SESSION/TURN/NUMBER, for example ses_1/t2/3")]
pub struct BadName(String);

impl fmt::Display for AttemptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.session, self.turn, self.number)
    }
}

impl FromStr for AttemptName {
    type Err = BadName;

    /// The last two parts are turn and number; everything before them is the session's id.
    fn from_str(text: &str) -> Result<Self, BadName> {
        let bad = || BadName(text.to_owned());
        let (rest, number) = text.rsplit_once('/').ok_or_else(bad)?;
        let (session, turn) = rest.rsplit_once('/').ok_or_else(bad)?;
        let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(bad)?;
        if session.is_empty() || turn.is_empty() {
            return Err(bad());
        }
        Ok(Self { session: session.into(), turn: turn.into(), number })
    }
}

#[cfg(test)]
mod tests {
    use super::AttemptName;

    #[test]
    fn a_name_is_read_as_it_is_written_and_nothing_else_is_one() {
        for session in ["ses_1", "a/session/with/strokes"] {
            let name = AttemptName { session: session.into(), turn: "t2".into(), number: 3 };
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        for text in ["", "ses_1", "ses_1/t1", "ses_1/t1/", "ses_1/t1/0", "ses_1/t1/x", "/t1/1", "ses_1//1"] {
            assert!(text.parse::<AttemptName>().is_err(), "{text:?}");
        }
    }
}
