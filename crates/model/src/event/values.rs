//! Values inside events: tools, usage, errors, questions. Members that a newer version added are kept.

use super::describe::flat_members;
use super::vocabulary::{ApprovalOutcome, By, ErrorClass, OptionKind, Permissions, ToolKind, ToolStatus};
use crate::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A tool call, or a change of one: members that are present replace, absent ones stay as they were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// The agent's name of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    /// One line for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How far the call has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolStatus>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Its raw result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// What to show: ACP's text, diff and terminal contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Vec<Value>>,
    /// Files it touches, as ACP's locations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locations: Option<Vec<Value>>,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Tool {
    /// True when no member is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The same without members that are null, which means absent on the wire.
    #[must_use]
    pub fn without_nulls(mut self) -> Self {
        self.input = self.input.filter(|value| !value.is_null());
        self.output = self.output.filter(|value| !value.is_null());
        self.extra.retain(|_, value| !value.is_null());
        self
    }

    /// Takes over every member the patch has.
    pub fn merge(&mut self, patch: &Self) {
        let Self { name, kind, title, status, input, output, content, locations, extra } = patch;
        replace(&mut self.name, name);
        replace(&mut self.kind, kind);
        replace(&mut self.title, title);
        replace(&mut self.status, status);
        replace(&mut self.input, input);
        replace(&mut self.output, output);
        replace(&mut self.content, content);
        replace(&mut self.locations, locations);
        for (member, value) in extra {
            self.extra.insert(member.clone(), value.clone());
        }
    }

    /// The members of `newer` that differ from this: merging them gives the same as merging all of `newer`.
    #[must_use]
    pub fn changes(&self, newer: Self) -> Self {
        let Self { name, kind, title, status, input, output, content, locations, mut extra } = newer;
        extra.retain(|member, value| self.extra.get(member) != Some(value));
        Self {
            name: name.filter(|new| self.name.as_ref() != Some(new)),
            kind: kind.filter(|new| self.kind.as_ref() != Some(new)),
            title: title.filter(|new| self.title.as_ref() != Some(new)),
            status: status.filter(|new| self.status.as_ref() != Some(new)),
            input: input.filter(|new| self.input.as_ref() != Some(new)),
            output: output.filter(|new| self.output.as_ref() != Some(new)),
            content: content.filter(|new| self.content.as_ref() != Some(new)),
            locations: locations.filter(|new| self.locations.as_ref() != Some(new)),
            extra,
        }
    }
}

fn replace<T: Clone>(old: &mut Option<T>, new: &Option<T>) {
    if new.is_some() {
        old.clone_from(new);
    }
}

/// Tokens. Absent means unknown, never zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Read by the model, without what came from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Written by the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Thought by the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// Read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Usage {
    /// Adds the tokens of another call. The sum of an unknown and a known number is the known one: a turn
    /// shows at least what was counted.
    pub fn add(&mut self, other: &Self) {
        let Self { input, output, reasoning, cache_read, cache_write, extra: _ } = other;
        sum(&mut self.input, *input);
        sum(&mut self.output, *output);
        sum(&mut self.reasoning, *reasoning);
        sum(&mut self.cache_read, *cache_read);
        sum(&mut self.cache_write, *cache_write);
    }

    /// Raises every member to at least the known one. What neither knows stays unknown.
    pub fn raise(&mut self, known: &Self) {
        let Self { input, output, reasoning, cache_read, cache_write, extra: _ } = known;
        self.input = self.input.max(*input);
        self.output = self.output.max(*output);
        self.reasoning = self.reasoning.max(*reasoning);
        self.cache_read = self.cache_read.max(*cache_read);
        self.cache_write = self.cache_write.max(*cache_write);
    }
}

fn sum(total: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *total = Some(total.unwrap_or(0).saturating_add(more));
    }
}

impl Cost {
    /// Adds the cost of another call. A cost in another currency cannot be added and is left out.
    pub fn add(&mut self, other: &Self) {
        if self.currency == other.currency {
            let sum = (self.amount + other.amount).clamp(f64::MIN, f64::MAX);
            // Smaller differences are rounding errors of floats.
            let rounded = (sum * 1e12).round() / 1e12;
            self.amount = if rounded.is_finite() { rounded } else { sum };
        }
    }

    /// Raises it to at least the known cost. A cost in another currency cannot be compared.
    pub fn raise(&mut self, known: &Self) {
        if self.currency == known.currency {
            self.amount = self.amount.max(known.amount);
        }
    }
}

/// Money.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// How much.
    pub amount: f64,
    /// ISO 4217 code.
    pub currency: String,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// How full the model's context is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Tokens in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// Tokens that fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// How an approval was settled.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolution {
    /// What was decided.
    pub outcome: ApprovalOutcome,
    /// Who decided.
    pub by: By,
    /// The id of the option that was chosen.
    pub option: Option<String>,
    /// The person's message.
    pub message: Option<String>,
    /// The client's own key of the answer.
    pub key: Option<String>,
}

flat_members! {
    Resolution {
        outcome: ApprovalOutcome = must word plain,
        by: By = must word plain,
        option: Option<String> = may id plain,
        message: Option<String> = may text before,
        key: Option<String> = may id plain,
    }
}

impl Resolution {
    /// A decision without option, message and key.
    pub fn new(outcome: ApprovalOutcome, by: By) -> Self {
        Self { outcome, by, option: None, message: None, key: None }
    }
}

/// The error that made a turn fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnError {
    /// Decided by transport, status, body type or an in-band event, never by the wording of a message.
    pub class: ErrorClass,
    /// The message for a person.
    pub message: String,
    /// HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// When it makes sense to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Time>,
    /// The provider's id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl TurnError {
    /// An error with a class and a message.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            status: None,
            retry_at: None,
            request_id: None,
            extra: Map::new(),
        }
    }
}

/// One offered answer to an approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalOption {
    /// The agent's id of it.
    pub id: String,
    /// What it does.
    pub kind: OptionKind,
    /// The label for a person.
    pub name: String,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// One question to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Its id, which names it in the answers.
    pub id: String,
    /// What is asked.
    pub text: String,
    /// Offered answers.
    #[serde(default)]
    pub options: Vec<Choice>,
    /// Several answers may be given.
    #[serde(default)]
    pub multiple: bool,
    /// An answer that is not offered may be given.
    #[serde(default)]
    pub custom: bool,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// One offered answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The label, which is also the answer.
    pub label: String,
    /// Members this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Changes of a session: members that are present replace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionPatch {
    /// The title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The model in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The agent's mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The agent's own id of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
    /// How full the context is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// How permission requests are handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// Whether secrets in prompts are redacted. The default is yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redact_prompts: Option<bool>,
    /// The names of the session's own MCP servers. Their commands, addresses and secrets are never in a log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Vec<String>>,
}

flat_members! {
    SessionPatch {
        title: Option<String> = may text before,
        model: Option<String> = may text before,
        mode: Option<String> = may text before,
        native_id: Option<String> = may id plain,
        context: Option<Context> = may json before,
        permissions: Option<Permissions> = may word plain,
        redact_prompts: Option<bool> = may flag plain,
        mcp: Option<Vec<String>> = may id plain,
    }
}

impl SessionPatch {
    /// True when it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes over every member the patch has.
    pub fn merge(&mut self, patch: &Self) {
        let Self { title, model, mode, native_id, context, permissions, redact_prompts, mcp } = patch;
        replace(&mut self.title, title);
        replace(&mut self.model, model);
        replace(&mut self.mode, mode);
        replace(&mut self.native_id, native_id);
        replace(&mut self.context, context);
        replace(&mut self.permissions, permissions);
        replace(&mut self.redact_prompts, redact_prompts);
        replace(&mut self.mcp, mcp);
    }

    /// The members of `newer` that differ from this.
    #[must_use]
    pub fn changes(&self, newer: Self) -> Self {
        let Self { title, model, mode, native_id, context, permissions, redact_prompts, mcp } = newer;
        Self {
            title: title.filter(|new| self.title.as_ref() != Some(new)),
            model: model.filter(|new| self.model.as_ref() != Some(new)),
            mode: mode.filter(|new| self.mode.as_ref() != Some(new)),
            native_id: native_id.filter(|new| self.native_id.as_ref() != Some(new)),
            context: context.filter(|new| self.context.as_ref() != Some(new)),
            permissions: permissions.filter(|new| self.permissions != Some(*new)),
            redact_prompts: redact_prompts.filter(|new| self.redact_prompts != Some(*new)),
            mcp: mcp.filter(|new| self.mcp.as_ref() != Some(new)),
        }
    }
}
