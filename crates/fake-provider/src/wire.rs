//! The three wire formats: how their requests are recognised, and what a script may look at in them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A way of asking a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireFormat {
    /// OpenAI chat completions, `POST …/chat/completions`.
    Chat,
    /// OpenAI responses, `POST …/responses`.
    Responses,
    /// Anthropic messages, `POST …/v1/messages`.
    Messages,
}

/// What a request asks for, as far as a script or an answer depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked {
    /// The model's name.
    pub model: String,
    /// Whether a stream is wanted.
    pub stream: bool,
    /// Whether a chat stream shall carry usage (`stream_options.include_usage`).
    pub include_usage: bool,
    /// The text of the last user message that has any. Tool results are not text.
    pub user_text: String,
    /// The texts of all user messages that have any, in order.
    pub user_texts: Vec<String>,
    /// How many results of tool calls the conversation has.
    pub tool_results: usize,
}

// === impl WireFormat ===

impl WireFormat {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    /// Which format a POST to this path speaks. The query is not part of the path.
    pub fn of_path(path: &str) -> Option<Self> {
        if path.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else if path.ends_with("/responses") {
            Some(Self::Responses)
        } else if path.ends_with("/messages") {
            Some(Self::Messages)
        } else {
            None
        }
    }

    /// The path below a base address such as `http://127.0.0.1:1`.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
        }
    }

    fn user_messages(self) -> &'static str {
        match self {
            Self::Chat | Self::Messages => "messages",
            Self::Responses => "input",
        }
    }
}

// === impl Asked ===

impl Asked {
    /// Reads what is asked from a request body.
    pub fn read(format: WireFormat, body: &Value) -> Self {
        let user_texts = user_texts(&body[format.user_messages()]);
        Self {
            model: body["model"].as_str().unwrap_or_default().to_owned(),
            stream: body["stream"].as_bool().unwrap_or(false),
            include_usage: body["stream_options"]["include_usage"].as_bool().unwrap_or(false),
            user_text: user_texts.last().cloned().unwrap_or_default(),
            user_texts,
            tool_results: tool_results(&body[format.user_messages()]),
        }
    }
}

/// Results of tool calls: messages of the role `tool`, blocks `tool_result`, and items like
/// `function_call_output`.
fn tool_results(messages: &Value) -> usize {
    let is_result = |value: &Value| {
        let kind = value["type"].as_str().unwrap_or_default();
        value["role"] == "tool" || kind == "tool_result" || kind.ends_with("_call_output")
    };
    let messages = messages.as_array().into_iter().flatten();
    let blocks = |message: &Value| {
        message["content"].as_array().into_iter().flatten().filter(|block| is_result(block)).count()
    };
    messages.map(|message| usize::from(is_result(message)) + blocks(message)).sum()
}

fn user_texts(messages: &Value) -> Vec<String> {
    if let Some(text) = messages.as_str() {
        return vec![text.to_owned()];
    }
    let users = messages.as_array().into_iter().flatten().filter(|message| message["role"] == "user");
    users.map(|message| text_of(&message["content"])).filter(|text| !text.is_empty()).collect()
}

/// A content is a string, or a list of blocks of which those with a `text` are text.
fn text_of(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let blocks = content.as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}
