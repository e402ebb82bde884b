//! What the real server would have answered at each moment of a capture: its stored messages, made of the
//! events it sent. A text is empty until its part is over, as with the real one (capture t).

use serde_json::{Value, json};
use turnstream_opencode_client::conversation::SessionSnapshot;
use turnstream_opencode_client::translate::Stored;

#[derive(Default)]
pub(crate) struct Server {
    messages: Vec<Value>,
    parts: Vec<Value>,
    busy: Vec<String>,
    permissions: Vec<Value>,
    questions: Vec<Value>,
}

impl Server {
    /// The server sends this event.
    pub(crate) fn sends(&mut self, event: &Value) {
        let properties = &event["properties"];
        let text = |member: &str| properties[member].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap() {
            "message.updated" => put(&mut self.messages, &properties["info"]),
            "message.part.updated" => put(&mut self.parts, &properties["part"]),
            "message.removed" => self.messages.retain(|message| message["id"] != properties["messageID"]),
            "message.part.removed" => self.parts.retain(|part| part["id"] != properties["partID"]),
            "session.status" => {
                self.busy.retain(|session| *session != text("sessionID"));
                if properties["status"]["type"] != "idle" {
                    self.busy.push(text("sessionID"));
                }
            }
            "permission.asked" => self.permissions.push(properties.clone()),
            "question.asked" => self.questions.push(properties.clone()),
            "permission.replied" => self.permissions.retain(|ask| ask["id"] != properties["requestID"]),
            "question.replied" | "question.rejected" => {
                self.questions.retain(|ask| ask["id"] != properties["requestID"]);
            }
            _ => {}
        }
    }

    /// It was killed and started again.
    pub(crate) fn rests(&mut self) {
        self.busy.clear();
        self.permissions.clear();
        self.questions.clear();
    }

    pub(crate) fn message(&self, id: &str) -> Option<Stored> {
        self.messages.iter().find(|message| message["id"] == id).map(|message| self.stored(message))
    }

    pub(crate) fn snapshot(&self, session: &str, children: &[String]) -> SessionSnapshot {
        SessionSnapshot {
            busy: self.busy.iter().any(|busy| busy == session),
            messages: self.of(session),
            children: children.iter().map(|child| self.of(child)).collect(),
            permissions: serde_json::from_value(json!(self.permissions)).unwrap(),
            questions: serde_json::from_value(json!(self.questions)).unwrap(),
            unread_parts: Vec::new(),
        }
    }

    fn of(&self, session: &str) -> Vec<Stored> {
        let of = self.messages.iter().filter(|message| message["sessionID"] == session);
        of.map(|message| self.stored(message)).collect()
    }

    fn stored(&self, message: &Value) -> Stored {
        let parts: Vec<&Value> =
            self.parts.iter().filter(|part| part["messageID"] == message["id"]).collect();
        serde_json::from_value(json!({ "info": message, "parts": parts })).unwrap()
    }
}

fn put(list: &mut Vec<Value>, new: &Value) {
    match list.iter_mut().find(|old| old["id"] == new["id"]) {
        Some(old) => *old = new.clone(),
        None => list.push(new.clone()),
    }
}
