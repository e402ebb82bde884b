//! About how many bytes an event takes. Counted before anything is written, so it has to be cheap.

use super::{
    ApprovalOption, ApprovalOutcome, Because, By, Cap, Choice, Context, Cost, Draft, ErrorClass, Field,
    ItemKind, ItemState, NoticeCode, Origin, Outcome, Permissions, Question, QuestionOutcome, Released,
    ResumeAs, Role, Scope, Status, StopReason, Tool, TurnError, Usage,
};
use crate::id::{ApprovalId, AttemptId, ItemId, PromptId, QuestionId, SessionId, TurnId};
use crate::time::Time;
use serde_json::{Map, Value};

/// The ids, type, place, time and small members of an event, or of a small object in one.
const ENVELOPE: usize = 192;
/// A value without text: its quotes, colon and comma, or a number.
const SCALAR: usize = 16;

/// Something that takes a number of bytes in JSON.
pub trait Weigh {
    /// About how many bytes; never much less than it takes.
    fn weight(&self) -> usize;
}

impl Weigh for Draft {
    fn weight(&self) -> usize {
        let Self { turn: _, attempt: _, item: _, parent: _, native, actor, body, extra } = self;
        let actor = actor.as_ref().map_or(0, |actor| SCALAR + actor.as_str().len());
        ENVELOPE + native.weight() + actor + extra.weight() + body.weight()
    }
}

/// The envelope's allowance has room for these.
macro_rules! weightless {
    ($($type:ty),+ $(,)?) => {$(
        impl Weigh for $type {
            fn weight(&self) -> usize {
                0
            }
        }
    )+};
}

weightless! {
    bool, u32, ApprovalOutcome, Because, By, Cap, ErrorClass, Field, ItemKind, ItemState, NoticeCode, Origin,
    Outcome, Permissions, QuestionOutcome, Released, ResumeAs, Role, Scope, StopReason, Time, ApprovalId,
    AttemptId, PromptId, QuestionId, SessionId, TurnId,
}

impl Weigh for String {
    fn weight(&self) -> usize {
        self.len()
    }
}

impl Weigh for Vec<PromptId> {
    fn weight(&self) -> usize {
        self.len() * ENVELOPE
    }
}

impl Weigh for Vec<String> {
    fn weight(&self) -> usize {
        self.iter().map(|text| SCALAR + text.len()).sum()
    }
}

impl Weigh for Vec<ItemId> {
    fn weight(&self) -> usize {
        self.len() * ENVELOPE
    }
}

impl Weigh for Vec<Value> {
    fn weight(&self) -> usize {
        self.iter().map(Weigh::weight).sum()
    }
}

impl Weigh for Vec<ApprovalOption> {
    fn weight(&self) -> usize {
        self.iter().map(Weigh::weight).sum()
    }
}

impl Weigh for Vec<Question> {
    fn weight(&self) -> usize {
        self.iter().map(Weigh::weight).sum()
    }
}

impl<T: Weigh> Weigh for Option<T> {
    fn weight(&self) -> usize {
        self.as_ref().map_or(0, Weigh::weight)
    }
}

impl<T: Weigh> Weigh for Box<T> {
    fn weight(&self) -> usize {
        (**self).weight()
    }
}

impl Weigh for Map<String, Value> {
    fn weight(&self) -> usize {
        self.iter().map(|(name, member)| name.len() + member.weight()).sum()
    }
}

/// JSON comes from a parser that bounds its depth, so this recursion is bounded too.
impl Weigh for Value {
    fn weight(&self) -> usize {
        SCALAR
            + match self {
                Self::Null | Self::Bool(_) | Self::Number(_) => 0,
                Self::String(text) => text.len(),
                Self::Array(values) => values.weight(),
                Self::Object(members) => members.weight(),
            }
    }
}

impl Weigh for Tool {
    fn weight(&self) -> usize {
        let Self { name, kind: _, title, status: _, input, output, content, locations, extra } = self;
        let texts = name.weight() + title.weight();
        let values = input.weight() + output.weight() + content.weight() + locations.weight();
        texts + values + extra.weight()
    }
}

impl Weigh for Usage {
    fn weight(&self) -> usize {
        ENVELOPE + self.extra.weight()
    }
}

impl Weigh for Cost {
    fn weight(&self) -> usize {
        let Self { amount: _, currency, extra } = self;
        currency.len() + extra.weight()
    }
}

impl Weigh for Context {
    fn weight(&self) -> usize {
        let Self { used: _, size: _, extra } = self;
        extra.weight()
    }
}

impl Weigh for TurnError {
    fn weight(&self) -> usize {
        let Self { class: _, message, status: _, retry_at: _, request_id, extra } = self;
        message.len() + request_id.weight() + extra.weight()
    }
}

impl Weigh for ApprovalOption {
    fn weight(&self) -> usize {
        let Self { id, kind: _, name, extra } = self;
        ENVELOPE + id.len() + name.len() + extra.weight()
    }
}

impl Weigh for Question {
    fn weight(&self) -> usize {
        let Self { id, text, options, multiple: _, custom: _, extra } = self;
        ENVELOPE + id.len() + text.len() + options.iter().map(Weigh::weight).sum::<usize>() + extra.weight()
    }
}

impl Weigh for Choice {
    fn weight(&self) -> usize {
        let Self { label, extra } = self;
        SCALAR + label.len() + extra.weight()
    }
}

impl Weigh for Status {
    fn weight(&self) -> usize {
        match self {
            Self::Idle | Self::Busy | Self::Waiting | Self::Recovering => 0,
            Self::Retrying { attempt: _, reason: _, until: _, message } => message.weight(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Seq;
    use crate::event::Body;
    use serde_json::json;

    #[test]
    fn what_is_large_weighs_at_least_about_what_it_takes() {
        let long = "x".repeat(10_000);
        let with_tool = |tool: Tool| Body::ItemUpdated { tool: Some(Box::new(tool)) };
        let bodies = [
            Body::ItemReplaced { field: Field::Output, text: long.clone() },
            with_tool(Tool { input: Some(json!({"a": {"b": [long.clone()]}})), ..Tool::default() }),
            with_tool(Tool { output: Some(json!([1, 2, long.clone()])), ..Tool::default() }),
            with_tool(Tool { content: Some(vec![json!({"text": long.clone()})]), ..Tool::default() }),
            with_tool(Tool { output: Some(json!(vec![0; 5_000])), ..Tool::default() }),
            Body::PromptAccepted {
                prompt: "p".into(),
                key: None,
                content: vec![json!({"text": long.clone()})],
            },
            Body::Notice { code: NoticeCode::Gap, message: "m".into(), detail: Some(json!([long.clone()])) },
            Body::SessionEnded { reason: long.clone() },
            Body::ItemStarted {
                kind: ItemKind::Tool,
                role: None,
                synthetic: false,
                text: None,
                tool: Some(Box::new(Tool {
                    extra: Map::from_iter([(long.clone(), json!(1))]),
                    ..Tool::default()
                })),
                native_id: None,
            },
        ];
        for body in bodies {
            let draft = Draft::new(body);
            let (weight, mut written) = (draft.weight(), Vec::new());
            draft.at(Seq(1), Time(1)).write_json(&mut written);
            assert!(weight >= written.len(), "{weight} for {} bytes", written.len());
        }
    }
}
