//! Commits the tool calls of a step at its end: all of them, or none.

use super::attempt::Attempt;
use crate::attempt::Repair;
use crate::attempt::{FinishMeaning, Item, ToolCall, ToolCallKind, WithheldCall, WithheldReason};
use crate::profile::EmptyArguments;
use crate::wire::{StrictValue, strict_object};

/// A call that was received to its end.
#[derive(Debug)]
pub(crate) struct ReceivedCall {
    pub(crate) call: ToolCall,
    /// Half a character of its arguments is missing, so more may be missing too.
    pub(crate) is_damaged: bool,
}

/// What empty arguments mean in this stream: no arguments, if nothing is wrong with it and its finish
/// announces calls. Otherwise their only delta may have been lost.
pub(crate) fn empty_arguments(attempt: &Attempt) -> EmptyArguments {
    let announced = attempt.finish.as_ref().is_some_and(|finish| finish.meaning == FinishMeaning::ToolCalls);
    if announced && attempt.is_sound() { attempt.profile.empty_arguments } else { EmptyArguments::Invalid }
}

/// Commits the calls of a step that ended untainted.
///
/// No call is committed under a finish such as `length`, or if the arguments of one call are not a JSON
/// object (vllm #53269, pi #6285). Calls are committed nowhere else, so a committed call may always run.
pub(crate) fn commit_calls(mut calls: Vec<ReceivedCall>, empty: EmptyArguments, attempt: &mut Attempt) {
    let may_run = attempt.finish.as_ref().is_none_or(|finish| finish.meaning.lets_calls_run());
    for ReceivedCall { call, .. } in &mut calls {
        if call.has_no_arguments() && empty == EmptyArguments::NoArguments {
            "{}".clone_into(&mut call.arguments);
            attempt.repair(Repair::EmptyArguments);
        }
    }
    let withheld = attempt.withheld.iter().any(|call| match call.reason {
        WithheldReason::BadArguments | WithheldReason::Finish => true,
        WithheldReason::Tainted | WithheldReason::Open | WithheldReason::Sibling => false,
    });
    let broken = withheld || calls.iter().any(|received| !received.is_sound());
    for received in calls {
        let reason = if !may_run {
            WithheldReason::Finish
        } else if !received.is_sound() {
            WithheldReason::BadArguments
        } else if broken {
            WithheldReason::Sibling
        } else {
            attempt.commit(Item::Call(received.call));
            continue;
        };
        let ToolCall { item, name, .. } = received.call;
        attempt.withheld.push(WithheldCall { item, name, reason });
    }
}

impl ReceivedCall {
    fn is_sound(&self) -> bool {
        !self.is_damaged && is_sound(&self.call)
    }
}

/// Whether a call names a tool and has arguments that can be passed to it.
///
/// Arguments that parse do not prove that nothing was lost. Arguments that do not parse prove that
/// something was.
pub(crate) fn is_sound(call: &ToolCall) -> bool {
    let arguments = match call.kind {
        ToolCallKind::Custom => true,
        ToolCallKind::Function => is_object(&call.arguments),
    };
    arguments && !call.name.is_empty()
}

impl ToolCall {
    /// Whether the arguments are left out.
    pub(crate) fn has_no_arguments(&self) -> bool {
        match self.kind {
            ToolCallKind::Function => self.arguments.trim_ascii().is_empty(),
            ToolCallKind::Custom => false,
        }
    }
}

/// Whether a text is one JSON object without unreadable parts.
pub(crate) fn is_object(text: &str) -> bool {
    strict_object::<StrictValue>(text).is_some()
}
