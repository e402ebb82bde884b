//! What clients send with a run.

use crate::problem::{Kind, Problem};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::PathBuf;
use turnstream_dialects::ag_ui::{Mark, mark, message_ids};
use turnstream_model::fold::Prompt;

/// Most messages of a body. They are kept while the run is open.
const MESSAGES: usize = 10_000;

/// The body of a run. Members that are not known are the page's own; so is `state`, which agents have not.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunInput {
    pub(super) thread_id: String,
    pub(super) run_id: String,
    /// Absent before version 1.0.
    pub(super) protocol_version: Option<String>,
    #[serde(default)]
    pub(super) messages: Vec<Value>,
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    context: Vec<Value>,
    #[serde(default)]
    forwarded_props: Option<Forwarded>,
    #[serde(default)]
    pub(super) resume: Vec<Resume>,
}

/// What a page passes on for a thread that is new.
#[derive(Default, Deserialize)]
pub(super) struct Forwarded {
    pub(super) cwd: Option<PathBuf>,
    pub(super) model: Option<String>,
}

/// The answer to one interrupt.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resume {
    pub(super) interrupt_id: String,
    pub(super) status: ResumeStatus,
    #[serde(default)]
    pub(super) payload: Value,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResumeStatus {
    Resolved,
    Cancelled,
}

impl RunInput {
    /// For a client that joins a run and sends nothing.
    pub(super) fn joined(thread_id: String, run_id: String) -> Self {
        Self {
            thread_id,
            run_id,
            protocol_version: None,
            messages: Vec::new(),
            tools: Vec::new(),
            context: Vec::new(),
            forwarded_props: None,
            resume: Vec::new(),
        }
    }

    /// Refuses messages that cannot be kept.
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.messages.len() > MESSAGES {
            let detail = format!("the body has {} messages; send the last {MESSAGES}", self.messages.len());
            return Err(Problem::new(Kind::BadBody, detail));
        }
        if !self.messages.iter().all(Value::is_object) {
            return Err(Problem::new(Kind::BadBody, "each of `messages` must be an object"));
        }
        Ok(())
    }

    /// Whether the client knows protocol 1.0.
    pub(super) fn is_current(&self) -> bool {
        self.protocol_version.is_some()
    }

    pub(super) fn forwarded(&mut self) -> Forwarded {
        self.forwarded_props.take().unwrap_or_default()
    }

    /// What the user said after the last message of another role.
    pub(super) fn said(&self) -> Result<Said, Problem> {
        if let Some(tool) = self.tools.first() {
            let name = tool["name"].as_str().unwrap_or_default();
            let detail = format!(
                "the agent cannot call the page's tool {name:?}; agents have their own tools, so leave `tools` empty"
            );
            return Err(Problem::new(Kind::BadBody, detail));
        }
        let is_users = |message: &&Value| message["role"] == "user";
        let count = self.messages.iter().rev().take_while(is_users).count();
        let new = &self.messages[self.messages.len() - count..];
        if new.is_empty() {
            let detail = "the last message must be of the role user: results of the page's tools and repeated \
                          answers are not supported";
            return Err(Problem::new(Kind::BadBody, detail));
        }
        let messages = new.iter().map(message).collect::<Result<_, _>>()?;
        let listed = self.messages.iter().filter_map(|message| message["id"].as_str().map(str::to_owned));
        Ok(Said { messages, listed: listed.collect(), context: self.context.iter().map(context).collect() })
    }
}

/// What a prompt may be made of.
pub(super) struct Said {
    /// Messages of the user: the client's ids of them, and their content.
    messages: Vec<(String, Vec<Value>)>,
    /// The client's ids of all its messages.
    listed: HashSet<String>,
    /// What the page tells about itself.
    context: Vec<Value>,
}

impl Said {
    /// Whether these prompts tell which of the messages are new. The only message always is.
    pub(super) fn is_decided_by<'a>(&self, mut prompts: impl Iterator<Item = &'a Prompt>) -> bool {
        self.messages.len() == 1 || prompts.any(|prompt| self.lists(prompt))
    }

    /// Whether the client has a message of this prompt. One without an id of a client's has that of the
    /// prompt.
    fn lists(&self, prompt: &Prompt) -> bool {
        self.listed.contains(prompt.prompt.as_str()) || message_ids(prompt).any(|id| self.listed.contains(id))
    }

    /// The content of the prompt of a run, in a session with these prompts.
    ///
    /// A page sends all messages each time. What was sent with an earlier run is left out: such a message is
    /// among the new ones if its run failed without an answer. If the client does not list a prompt, it may
    /// be one of these messages without an id: then only the last message is sent.
    pub(super) fn content<'a>(
        self,
        run: &str,
        prompts: impl Iterator<Item = &'a Prompt> + Clone,
    ) -> Vec<Value> {
        let is_repeat = |prompt: &&Prompt| prompt.key.as_deref() == Some(run);
        let earlier = prompts.clone().filter(|prompt| !is_repeat(prompt));
        let ids = |prompt: &'a Prompt| message_ids(prompt).chain([prompt.prompt.as_str()]);
        let sent: HashSet<&str> = earlier.clone().flat_map(ids).collect();
        let is_sent = |id: &str| sent.contains(id);
        let has_unknown =
            earlier.clone().any(|prompt| message_ids(prompt).next().is_none() && !self.lists(prompt));
        let last = self.messages.len() - 1;
        let first = match self.messages.iter().rposition(|(id, _)| is_sent(id)) {
            Some(sent) => (sent + 1).min(last),
            None if has_unknown => last,
            None => 0,
        };
        let mut content = Vec::new();
        for (id, mut blocks) in self.messages.into_iter().skip(first) {
            // A message that is sent again is a second one in the session.
            if let Some(block) = blocks.first_mut().filter(|_| !is_sent(&id)) {
                mark(block, Mark::Message(&id));
            }
            content.append(&mut blocks);
        }
        content.extend(self.context);
        // The same run again is the same prompt, also if earlier ones are not at hand.
        let mut same = prompts.filter(is_repeat).map(|prompt| &prompt.content);
        let same = same.find(|before| !before.is_empty() && ends_alike(before, &content));
        same.cloned().unwrap_or(content)
    }
}

/// Whether one ends with the other. Marks do not count.
fn ends_alike(one: &[Value], other: &[Value]) -> bool {
    let plain = |block: &Value| {
        let mut block = block.clone();
        block.as_object_mut().map(|members| members.remove("_meta"));
        block
    };
    one.iter().rev().zip(other.iter().rev()).all(|(one, other)| plain(one) == plain(other))
}

/// A message of the client's as blocks of content.
fn message(message: &Value) -> Result<(String, Vec<Value>), Problem> {
    let id = message["id"].as_str().unwrap_or_default().to_owned();
    match &message["content"] {
        Value::String(text) => Ok((id, vec![json!({"type": "text", "text": text})])),
        Value::Array(parts) => Ok((id, parts.iter().map(block).collect::<Result<_, _>>()?)),
        other => Err(bad(format!("the content of a message is {other}"))),
    }
}

fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::BadContent, detail)
}

/// A part of a message as a content block of ACP.
fn block(part: &Value) -> Result<Value, Problem> {
    let kind = part["type"].as_str().unwrap_or_default();
    if kind == "text" {
        return Ok(json!({"type": "text", "text": part["text"].as_str().unwrap_or_default()}));
    }
    // Since 1.0 media have a source; before, their members were in the part itself.
    let source = if part["source"].is_object() { &part["source"] } else { part };
    let mime = source["mimeType"].as_str().unwrap_or("application/octet-stream");
    let value = source["value"].as_str().filter(|_| part["source"].is_object());
    let is_url = source["type"] == "url";
    let url = source["url"].as_str().or(value.filter(|_| is_url));
    let data = source["data"].as_str().or(value.filter(|_| !is_url));
    match (data, url) {
        (Some(data), _) if mime.starts_with("image/") => {
            Ok(json!({"type": "image", "mimeType": mime, "data": data}))
        }
        (None, Some(url)) => {
            let name = url.rsplit('/').next().unwrap_or(url);
            Ok(json!({"type": "resource_link", "uri": url, "name": name, "mimeType": mime}))
        }
        (Some(_), _) | (None, None) => {
            let detail =
                format!("a part of type {kind:?} ({mime}) cannot be sent: use text, an image, or a URL");
            Err(bad(detail))
        }
    }
}

/// What a page tells about itself, as text for the agent.
fn context(entry: &Value) -> Value {
    let value = match &entry["value"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let text = format!("{}: {value}", entry["description"].as_str().unwrap_or("Context"));
    let mut block = json!({"type": "text", "text": text});
    mark(&mut block, Mark::Context);
    block
}

#[cfg(test)]
mod tests {
    use super::RunInput;
    use serde_json::{Value, json};
    use turnstream_model::fold::Prompt;

    /// The content of the prompt in a session with these prompts.
    fn content(members: Value, prompts: &[Prompt]) -> Result<Vec<Value>, String> {
        let mut body = json!({"threadId": "t", "runId": "r"});
        for (name, value) in members.as_object().unwrap() {
            body[name] = value.clone();
        }
        let input: RunInput = serde_json::from_value(body).unwrap();
        let said = input.said().map_err(|problem| format!("{problem:?}"))?;
        Ok(said.content("r", prompts.iter()))
    }

    fn prompt(members: Value) -> Result<Vec<Value>, String> {
        content(members, &[])
    }

    fn sent(key: &str, content: &[Value]) -> Prompt {
        let prompt = json!({"prompt": key, "key": key, "content": content, "state": "taken", "time": 1});
        serde_json::from_value(prompt).unwrap()
    }

    #[test]
    fn the_prompt_is_what_the_user_said_last() {
        let messages = json!([
            {"id": "1", "role": "user", "content": "Old"},
            {"id": "2", "role": "assistant", "content": "Answer"},
            {"id": "3", "role": "user", "content": [
                {"type": "text", "text": "Look"},
                {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}},
                {"type": "document", "source": {"type": "url", "value": "https://example.com/a.pdf"}},
            ]},
        ]);
        let context = json!([{"description": "Page", "value": "Home"}]);
        let want = json!([
            {"type": "text", "text": "Look", "_meta": {"turnstream": {"message": "3"}}},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "resource_link", "uri": "https://example.com/a.pdf", "name": "a.pdf",
                "mimeType": "application/octet-stream"},
            {"type": "text", "text": "Page: Home", "_meta": {"turnstream": {"context": true}}},
        ]);
        assert_eq!(json!(prompt(json!({"messages": messages, "context": context})).unwrap()), want);
    }

    #[test]
    fn what_was_sent_with_an_earlier_run_is_not_sent_again() {
        let said = |ids: &[&str]| {
            let one = |id: &&str| json!({"id": id, "role": "user", "content": id});
            json!({"messages": ids.iter().map(one).collect::<Vec<_>>()})
        };
        let texts = |ids: &[&str], prompts: &[Prompt]| {
            let blocks = content(said(ids), prompts).unwrap();
            blocks.iter().map(|block| block["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(texts(&["A", "B"], &[]), ["A", "B"], "the first run of a session");
        let failed = sent("r0", &prompt(said(&["A"])).unwrap());
        assert_eq!(texts(&["A", "B"], std::slice::from_ref(&failed)), ["B"]);
        assert_eq!(texts(&["A", "B", "C"], std::slice::from_ref(&failed)), ["B", "C"]);
        let foreign = sent("r0", &[json!({"type": "text", "text": "A"})]);
        assert_eq!(texts(&["A", "B"], &[foreign]), ["B"], "of a client that has no ids");
        // Messages that no run has sent, after an answer: one run is refused, the next has both.
        let answered = |sent: &str| {
            let mut members = said(&[sent, "-", "B", "C"]);
            members["messages"][1]["role"] = json!("assistant");
            members
        };
        let texts_of = |members: Value, prompts: &[Prompt]| {
            let blocks = content(members, prompts).unwrap();
            blocks.iter().map(|block| block["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(texts_of(answered("A"), std::slice::from_ref(&failed)), ["B", "C"]);
        let foreign = sent("r0", &[json!({"type": "text", "text": "A"})]);
        assert_eq!(texts_of(answered("r0"), std::slice::from_ref(&foreign)), ["B", "C"]);
        assert_eq!(texts_of(answered("A"), &[foreign]), ["C"], "B may be the prompt of the other client");
        // A message that is sent again is sent, and has no second message of its id.
        let again = content(said(&["A"]), std::slice::from_ref(&failed)).unwrap();
        assert_eq!(again, [json!({"type": "text", "text": "A"})]);
        // The same run again is the same prompt, whatever else is known.
        let both = sent("r", &prompt(said(&["A", "B"])).unwrap());
        assert_eq!(texts(&["A", "B"], std::slice::from_ref(&both)), ["A", "B"]);
        let second = sent("r", &content(said(&["A", "B"]), std::slice::from_ref(&failed)).unwrap());
        assert_eq!(texts(&["A", "B"], std::slice::from_ref(&second)), ["B"]);
        assert_eq!(texts(&["A", "B"], &[failed, second]), ["B"]);
        let repeated = sent("r", &again);
        assert_eq!(content(said(&["A"]), &[repeated]).unwrap(), again);
    }

    #[test]
    fn what_an_agent_would_not_get_is_refused() {
        let user = json!({"id": "1", "role": "user", "content": "Hi"});
        let tool = json!({"messages": [user], "tools": [{"name": "paint"}]});
        assert!(prompt(tool).unwrap_err().contains("paint"));
        assert!(prompt(json!({"messages": [{"id": "1", "role": "tool", "content": "x"}]})).is_err());
        let sound =
            json!({"type": "audio", "source": {"type": "data", "value": "A", "mimeType": "audio/wav"}});
        assert!(prompt(json!({"messages": [{"id": "1", "role": "user", "content": [sound]}]})).is_err());
    }
}
