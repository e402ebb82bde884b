//! Scripts: which request gets which answer, and which faults.
//!
//! Everything here is plain data with serde, so a script can be Rust or a JSON file.

use crate::fault::Fault;
use crate::reply::{Completion, Reply};
use crate::wire::{Asked, WireFormat};
use serde::{Deserialize, Serialize};

/// The steps a provider answers from. A request takes the first step, in this order, that matches it and has
/// uses left.
///
/// So a first step that matches only auxiliary requests (a title model), without a limit of uses, is a lane
/// of its own. It never consumes a step of the main conversation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// In the order they are tried.
    pub steps: Vec<Step>,
    /// What `GET …/models` lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The time of all answers, in seconds since 1970. Default: the time of the request. Clients look for
    /// numbers in the text of a damaged answer, so what they do may depend on its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<u64>,
}

/// One answer and the requests it is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Which requests it answers. Default: every one.
    #[serde(default)]
    pub when: Matcher,
    /// How many of them.
    #[serde(default)]
    pub times: Times,
    /// The answer without anything going wrong.
    pub reply: Reply,
    /// How the bytes travel.
    #[serde(default)]
    pub delivery: Delivery,
    /// What goes wrong, applied in order, each to what the earlier ones left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
}

/// How many requests a step answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Times {
    /// One.
    #[default]
    Once,
    /// This many.
    Count(u32),
    /// As many as come.
    Always,
}

/// Which requests a step is for. Every condition that is set must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matcher {
    /// Asked in this wire format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<WireFormat>,
    /// Asked of exactly this model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The last user text contains this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_text: Option<String>,
    /// Some user text of the conversation contains this. An agent may add texts of its own behind a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_user_text: Option<String>,
    /// The conversation has results of tool calls, or has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_tool_results: Option<bool>,
}

/// How the bytes of an answer travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Delivery {
    /// Milliseconds between the request and the head of the response, at most 10 minutes.
    pub before_headers_ms: u64,
    /// Milliseconds before each delta of text, reasoning or tool arguments, at most 10 minutes.
    pub before_delta_ms: u64,
    /// How the end of the body is told.
    pub framing: Framing,
}

/// How HTTP/1.1 tells where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// `transfer-encoding: chunked`, one HTTP chunk per write.
    #[default]
    Chunked,
    /// `content-length`. A cut body still announces its full length.
    ContentLength,
    /// The body ends where the connection does.
    CloseDelimited,
}

// === impl Script ===

impl Script {
    /// A script of these steps.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), ..Self::default() }
    }

    /// With this time in all answers, in seconds since 1970.
    #[must_use]
    pub fn created(mut self, created: u64) -> Self {
        self.created = Some(created);
        self
    }

    /// Reads a script from JSON. An unknown member is an error: a misspelled fault would be no fault.
    pub fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}

// === impl Step ===

impl Step {
    /// Answers one request, whatever it is, with this.
    pub fn new(reply: impl Into<Reply>) -> Self {
        Self {
            when: Matcher::default(),
            times: Times::default(),
            reply: reply.into(),
            delivery: Delivery::default(),
            faults: Vec::new(),
        }
    }

    /// Answers one request with this text.
    pub fn text(text: &str) -> Self {
        Self::new(Completion::text(text))
    }

    /// Only for requests to this model.
    #[must_use]
    pub fn for_model(mut self, model: &str) -> Self {
        self.when.model = Some(model.to_owned());
        self
    }

    /// Only for requests in this wire format.
    #[must_use]
    pub fn for_format(mut self, format: WireFormat) -> Self {
        self.when.format = Some(format);
        self
    }

    /// Only for requests whose last user text contains this.
    #[must_use]
    pub fn for_user_text(mut self, part: &str) -> Self {
        self.when.user_text = Some(part.to_owned());
        self
    }

    /// Only for requests of a conversation with a user text that contains this.
    #[must_use]
    pub fn for_any_user_text(mut self, part: &str) -> Self {
        self.when.any_user_text = Some(part.to_owned());
        self
    }

    /// Only for requests of a conversation with results of tool calls.
    #[must_use]
    pub fn after_tools(mut self) -> Self {
        self.when.has_tool_results = Some(true);
        self
    }

    /// Only for requests of a conversation without results of tool calls.
    #[must_use]
    pub fn before_tools(mut self) -> Self {
        self.when.has_tool_results = Some(false);
        self
    }

    /// As many requests as match.
    #[must_use]
    pub fn always(mut self) -> Self {
        self.times = Times::Always;
        self
    }

    /// With this going wrong, after what was already said to go wrong.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Delivered like this.
    #[must_use]
    pub fn delivered(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }
}

// === impl Matcher ===

impl Matcher {
    /// Whether a request is one of those.
    pub fn matches(&self, format: WireFormat, asked: &Asked) -> bool {
        self.format.is_none_or(|wanted| wanted == format)
            && self.model.as_ref().is_none_or(|wanted| *wanted == asked.model)
            && self.has_tool_results.is_none_or(|wanted| wanted == (asked.tool_results > 0))
            && self.user_text.as_ref().is_none_or(|wanted| asked.user_text.contains(wanted.as_str()))
            && self
                .any_user_text
                .as_ref()
                .is_none_or(|wanted| asked.user_texts.iter().any(|text| text.contains(wanted.as_str())))
    }
}

// === impl Times ===

impl Times {
    /// Whether a step used this often may be used again.
    pub(crate) fn allow(self, used: u32) -> bool {
        match self {
            Self::Once => used < 1,
            Self::Count(count) => used < count,
            Self::Always => true,
        }
    }
}
