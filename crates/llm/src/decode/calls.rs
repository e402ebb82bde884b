//! What decides, at the end of a step, whether its calls are committed: all of them or none.

use super::attempt::Attempt;
use crate::attempt::Repair;
use crate::attempt::{Call, CallKind, Item, Why, Withheld};
use crate::profile::EmptyArguments;
use crate::wire::{Readable, sound_object};

/// A call that came to its end.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) call: Call,
    /// Half a character of its arguments stayed alone: the other one, and perhaps more, was lost.
    pub(crate) is_damaged: bool,
}

/// Commits the calls of a step that came to its end untainted. Under a finish such as `length`, or when one of them has
/// arguments that are no JSON object, none is (vllm #53269, pi #6285). This is the only place where calls are committed, so
/// whoever is told of a committed call may run it.
pub(crate) fn settle(mut calls: Vec<Received>, empty: EmptyArguments, attempt: &mut Attempt) {
    let may_run = attempt.finish.as_ref().is_none_or(|finish| finish.meaning.lets_calls_run());
    for Received { call, .. } in &mut calls {
        if call.arguments.is_empty() && empty == EmptyArguments::NoArguments {
            call.arguments.push_str("{}");
            attempt.repair(Repair::EmptyArguments);
        }
    }
    let withheld = attempt.withheld.iter().any(|call| match call.why {
        Why::BadArguments | Why::Finish => true,
        Why::Tainted | Why::Open | Why::Sibling => false,
    });
    let broken = withheld || calls.iter().any(|received| !received.is_sound());
    for received in calls {
        let why = if !may_run {
            Why::Finish
        } else if !received.is_sound() {
            Why::BadArguments
        } else if broken {
            Why::Sibling
        } else {
            attempt.commit(Item::Call(received.call));
            continue;
        };
        let Call { item, name, .. } = received.call;
        attempt.withheld.push(Withheld { item, name, why });
    }
}

impl Received {
    fn is_sound(&self) -> bool {
        !self.is_damaged && is_sound(&self.call)
    }
}

/// Whether a call names a tool and has arguments that can be passed to it. That they parse is no evidence that nothing
/// was lost; that they do not is evidence enough that something was.
pub(crate) fn is_sound(call: &Call) -> bool {
    let arguments = match call.kind {
        CallKind::Custom => true,
        CallKind::Function => is_object(&call.arguments),
    };
    arguments && !call.name.is_empty()
}

/// Whether a text is one JSON object, of which a tool can read everything.
fn is_object(text: &str) -> bool {
    sound_object::<Readable>(text).is_some()
}
