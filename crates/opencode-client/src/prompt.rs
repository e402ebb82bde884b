//! A prompt in the form that opencode accepts.

use serde_json::{Map, Value, json};

/// A prompt. With the same message id and part ids it can be sent again: opencode runs and stores it once,
/// also after a crash of the server (captures `y2-client-ids-repeated`, `u3-killed-then-same-ids`). With
/// the message id alone its text would be doubled (`y1-client-message-id`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The id of the user message. Answers have it as `parentID`.
    pub message_id: String,
    /// Its parts.
    pub parts: Vec<PromptPart>,
    /// The model; the default is the server's choice.
    pub model: Option<Model>,
    /// The agent (mode); the default is the server's choice. An unknown one is answered with 204, and the
    /// session never becomes idle (capture `p-errors`).
    pub agent: Option<String>,
}

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptPart {
    /// Its id.
    pub id: String,
    /// Its content.
    pub content: PartContent,
}

/// The content of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartContent {
    /// Text.
    Text(String),
    /// A file.
    File {
        /// Its media type.
        mime: String,
        /// Its name.
        filename: Option<String>,
        /// Its location: `data:` or `file:`.
        url: String,
    },
}

/// A model, by the names of its provider and its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
}

impl Model {
    /// Reads `provider/model`. The name of the model may contain slashes.
    pub fn parse(text: &str) -> Option<Self> {
        let (provider, model) = text.split_once('/')?;
        let named = !provider.is_empty() && !model.is_empty();
        named.then(|| Self { provider: provider.to_owned(), model: model.to_owned() })
    }
}

impl Prompt {
    /// The body of the request.
    pub(super) fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("messageID".to_owned(), self.message_id.clone().into());
        if let Some(Model { provider, model }) = &self.model {
            body.insert("model".to_owned(), json!({"providerID": provider, "modelID": model}));
        }
        if let Some(agent) = &self.agent {
            body.insert("agent".to_owned(), agent.clone().into());
        }
        let parts: Vec<Value> = self.parts.iter().map(PromptPart::body).collect();
        body.insert("parts".to_owned(), parts.into());
        Value::Object(body)
    }
}

impl PromptPart {
    pub(super) fn body(&self) -> Value {
        let id = &self.id;
        match &self.content {
            PartContent::Text(text) => json!({"id": id, "type": "text", "text": text}),
            PartContent::File { mime, filename: None, url } => {
                json!({"id": id, "type": "file", "mime": mime, "url": url})
            }
            PartContent::File { mime, filename: Some(filename), url } => {
                json!({"id": id, "type": "file", "mime": mime, "filename": filename, "url": url})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_written_as_the_openapi_document_has_it() {
        let text = PromptPart { id: "prt_1".to_owned(), content: PartContent::Text("Look".to_owned()) };
        let file = PartContent::File {
            mime: "image/png".to_owned(),
            filename: Some("a.png".to_owned()),
            url: "data:image/png;base64,AA==".to_owned(),
        };
        let prompt = Prompt {
            message_id: "msg_1".to_owned(),
            parts: vec![text, PromptPart { id: "prt_2".to_owned(), content: file }],
            model: Model::parse("lab/team/scripted-1"),
            agent: Some("plan".to_owned()),
        };
        let body = json!({
            "messageID": "msg_1",
            "model": {"providerID": "lab", "modelID": "team/scripted-1"},
            "agent": "plan",
            "parts": [
                {"id": "prt_1", "type": "text", "text": "Look"},
                {"id": "prt_2", "type": "file", "mime": "image/png", "filename": "a.png", "url": "data:image/png;base64,AA=="},
            ],
        });
        assert_eq!(prompt.body(), body);
    }

    #[test]
    fn half_a_model_is_no_model() {
        assert_eq!([Model::parse("lab"), Model::parse("/m"), Model::parse("lab/")], [None, None, None]);
    }
}
