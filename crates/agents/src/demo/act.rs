//! The acts of a step. Names and members are those of `docs/scripted-agent.md`.

use super::pieces::STAMP;
use super::script::DemoScript;
use serde::Deserialize;
use serde_json::Value;
use std::num::NonZeroUsize;
use turnstream_model::event::{Context, Cost, ErrorClass, Question, StopReason, TurnError, Usage};
use turnstream_model::time::Time;

/// The largest burst in bytes: the agent keeps all of it, to report it again.
const MAX_BURST: usize = 256 << 20;
/// The most messages of one burst.
const MAX_MESSAGES: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Act {
    // Work.
    Begin(Nothing),
    Text(Say),
    Reasoning(Say),
    Plan(Say),
    Tool(Box<Call>),
    Question(Asking),
    AtOnce(AtOnce),
    Usage(Report),
    Attempt(BeginAttempt),
    AttemptEnd(EndAttempt),
    Retry(Retry),
    Sleep(Sleep),
    Burst(Burst),
    Process(Nothing),
    // The end of a turn.
    End(Ended),
    Idle(Ended),
    Fail(Why),
    Error(Why),
    // Faults.
    Stall(Nothing),
    Silent(Nothing),
    Refuse(Why),
    Crash(Crash),
    Vanish(Nothing),
    Garbage(Nothing),
    Gap(Gap),
    Duplicate(Duplicate),
    Merge(Nothing),
    // After the end.
    Late(Late),
    Wake(Wake),
    Foreign(Foreign),
    Background(Background),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Say {
    pub(super) text: String,
    /// The number of pieces; the default is word by word.
    pub(super) chunks: Option<NonZeroUsize>,
    pub(super) pace_ms: Option<u64>,
    /// The text is never ended: a retry voids it, or the end of the turn abandons it.
    #[serde(default)]
    pub(super) unfinished: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) name: Option<String>,
    pub(super) title: Option<String>,
    pub(super) input: Option<Value>,
    pub(super) effect: Option<Effect>,
    #[serde(default)]
    pub(super) ask: bool,
    #[serde(default)]
    pub(super) if_rejected: IfRejected,
    /// The output while it runs.
    #[serde(default)]
    pub(super) output: Vec<String>,
    #[serde(default)]
    pub(super) takes_ms: u64,
    /// It fails with this message, without its effect.
    pub(super) fail: Option<String>,
}

/// What a tool does to files below the session's directory.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Effect {
    Write { path: String, text: String },
    Append { path: String, text: String },
    Read { path: String },
    Count { path: String },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum IfRejected {
    #[default]
    GoOn,
    Stop,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asking {
    pub(super) questions: Vec<Question>,
    #[serde(default)]
    pub(super) if_rejected: IfRejected,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AtOnce {
    pub(super) steps: Vec<Wait>,
}

/// A step that can be open at the same time as others.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Wait {
    Tool(Box<Call>),
    Question(Asking),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Report {
    pub(super) usage: Option<Usage>,
    pub(super) cost: Option<Cost>,
    pub(super) context: Option<Context>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BeginAttempt {
    pub(super) model: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndAttempt {
    pub(super) finish: Option<String>,
    pub(super) usage: Option<Usage>,
    pub(super) cost: Option<Cost>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Retry {
    pub(super) attempt: Option<u32>,
    pub(super) reason: Option<ErrorClass>,
    #[serde(default)]
    pub(super) wait_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sleep {
    pub(super) ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Burst {
    pub(super) count: usize,
    pub(super) bytes: usize,
    /// The default is as fast as the keeper reads.
    pub(super) per_second: Option<NonZeroUsize>,
    /// The number of messages that take the pieces in turn. Consecutive pieces of one message may be stored
    /// as one.
    pub(super) messages: Option<NonZeroUsize>,
    /// Each piece starts with its number and its time.
    #[serde(default)]
    pub(super) stamp: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ended {
    pub(super) stop_reason: Option<StopReason>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Why {
    pub(super) class: ErrorClass,
    pub(super) message: String,
    /// The error tells when to try again: so many milliseconds from now.
    pub(super) retry_in_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Crash {
    pub(super) message: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gap {
    /// A message whose second half is missed, and repaired by its snapshot.
    pub(super) text: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Duplicate {
    pub(super) count: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Late {
    pub(super) what: LateNews,
    #[serde(default)]
    pub(super) at: LateAt,
    #[serde(default)]
    pub(super) after_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LateNews {
    Tool,
    Text,
    Idle,
    Done,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LateAt {
    #[default]
    AfterEnd,
    NextTurn,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wake {
    #[serde(default)]
    pub(super) after_ms: u64,
    #[serde(deserialize_with = "steps")]
    pub(super) steps: DemoScript,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Foreign {
    #[serde(default)]
    pub(super) after_ms: u64,
    pub(super) prompt: String,
    #[serde(deserialize_with = "steps")]
    pub(super) steps: DemoScript,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Background {
    #[serde(default)]
    pub(super) after_ms: u64,
    pub(super) text: String,
}

fn steps<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<DemoScript, D::Error> {
    let steps = Vec::deserialize(deserializer)?;
    DemoScript::read(steps, None).map_err(serde::de::Error::custom)
}

// === impl Act ===

impl Act {
    /// Checks what the types of the members cannot express.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Self::Burst(burst) if burst.stamp && burst.bytes < STAMP => {
                Err(format!("a stamp needs \"bytes\" of at least {STAMP}"))
            }
            Self::Burst(burst) if burst.messages.is_some_and(|messages| messages.get() > MAX_MESSAGES) => {
                Err(format!("\"messages\" must be at most {MAX_MESSAGES}"))
            }
            Self::Burst(burst) => match burst.count.checked_mul(burst.bytes) {
                Some(bytes) if bytes <= MAX_BURST => Ok(()),
                _ => Err(format!("count times bytes must be at most {MAX_BURST}")),
            },
            Self::AtOnce(at_once) if at_once.steps.is_empty() => {
                Err("\"steps\" must not be empty".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// True if no step can follow.
    pub(super) fn is_last(&self) -> bool {
        self.is_instead_of_a_turn()
            || matches!(self, Self::End(_) | Self::Idle(_) | Self::Fail(_) | Self::Stall(_))
    }

    pub(super) fn is_instead_of_a_turn(&self) -> bool {
        matches!(self, Self::Silent(_) | Self::Refuse(_) | Self::Merge(_))
    }

    /// True if the step asks a person.
    pub(super) fn waits(&self) -> bool {
        match self {
            Self::Tool(call) => call.ask,
            Self::Question(_) | Self::AtOnce(_) => true,
            _ => false,
        }
    }

    pub(super) fn has_tool(&self) -> bool {
        match self {
            Self::Tool(_) => true,
            Self::AtOnce(at_once) => at_once.steps.iter().any(|step| matches!(step, Wait::Tool(_))),
            _ => false,
        }
    }

    pub(super) fn needs_tool(&self) -> bool {
        matches!(self, Self::Background(_) | Self::Late(Late { what: LateNews::Tool, .. }))
    }

    pub(super) fn needs_text(&self) -> bool {
        matches!(self, Self::Late(Late { what: LateNews::Text, .. }))
    }
}

impl Why {
    pub(super) fn error(&self) -> TurnError {
        let retry_at = self.retry_in_ms.map(|millis| Time::now().plus_millis(millis));
        TurnError { retry_at, ..TurnError::new(self.class, self.message.clone()) }
    }
}

impl Effect {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Write { .. } => "write",
            Self::Append { .. } => "append",
            Self::Read { .. } => "read",
            Self::Count { .. } => "count",
        }
    }

    pub(super) fn path(&self) -> &str {
        match self {
            Self::Write { path, .. }
            | Self::Append { path, .. }
            | Self::Read { path }
            | Self::Count { path } => path,
        }
    }
}
