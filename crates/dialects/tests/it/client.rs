//! A client that understands `_meta.turnstream`. It reads JSON and shares no code with the encoder.

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use turnstream_dialects::acp::AcpEvent;
use turnstream_model::event::ItemKind;
use turnstream_model::fold::{ItemStage, State};

/// What is on the screen.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Screen {
    pub(crate) messages: BTreeMap<String, Message>,
    pub(crate) calls: BTreeMap<String, Call>,
    pub(crate) notes: BTreeMap<String, Message>,
    pub(crate) plan: Value,
    /// What the user said, by prompt.
    pub(crate) said: BTreeMap<String, Vec<Value>>,
    /// Requests without an answer.
    pub(crate) asked: BTreeSet<String>,
    /// Terminators, by turn.
    pub(crate) ended: Vec<String>,
    pub(crate) status: Value,
}

/// A message or a thought.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Message {
    pub(crate) kind: String,
    pub(crate) text: String,
    pub(crate) parent: Value,
    /// Present when it is not whole.
    pub(crate) ended: Value,
}

/// A tool call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Call {
    /// The members of `tool_call` and its updates.
    pub(crate) members: Map<String, Value>,
    /// Texts as they appear.
    pub(crate) texts: BTreeMap<String, String>,
    pub(crate) parent: Value,
    pub(crate) ended: Value,
}

impl Screen {
    pub(crate) fn of(events: &[AcpEvent]) -> Self {
        let message = |event: &AcpEvent| serde_json::from_str(&event.to_json("ses_1")).unwrap();
        Self::of_messages(&events.iter().map(message).collect::<Vec<Value>>())
    }

    pub(crate) fn of_messages(messages: &[Value]) -> Self {
        // A session that has said nothing is idle.
        let mut screen = Self { status: "idle".into(), ..Self::default() };
        for message in messages {
            screen.show(message);
        }
        screen
    }

    pub(crate) fn show(&mut self, message: &Value) {
        let (params, word) = (&message["params"], |value: &Value| value.as_str().unwrap().to_owned());
        match message["method"].as_str().unwrap() {
            "session/update" => self.update(&params["update"]),
            "session/request_permission" | "_turnstream/question" => {
                assert!(self.asked.insert(word(&message["id"])), "asked twice: {message}");
            }
            "$/cancel_request" => assert!(self.asked.remove(&word(&params["requestId"])), "{message}"),
            "_turnstream/turn_ended" => {
                let turn = word(&params["turn"]);
                assert!(!self.ended.contains(&turn), "a second terminator: {message}");
                assert!(params["result"].is_object() != params["error"].is_object(), "{message}");
                self.ended.push(turn);
            }
            "_turnstream/item" => self.note(params),
            "_turnstream/revised" => self.revised(params),
            "_turnstream/status" => self.status = params["status"].clone(),
            "_turnstream/notice" | "_turnstream/prompt_withdrawn" | "_turnstream/session_ended" => {}
            other => panic!("unknown: {other}"),
        }
    }

    fn update(&mut self, update: &Value) {
        let ours = &update["_meta"]["turnstream"];
        match update["sessionUpdate"].as_str().unwrap() {
            "user_message_chunk" if !update["messageId"].as_str().unwrap().starts_with('i') => {
                let prompt = update["messageId"].as_str().unwrap().to_owned();
                self.said.entry(prompt).or_default().push(update["content"].clone());
            }
            kind @ ("user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk") => {
                let id = update["messageId"].as_str().unwrap().to_owned();
                if !ours["void"].is_null() {
                    self.messages.remove(&id);
                    return;
                }
                let shown = self.messages.entry(id).or_default();
                shown.kind = kind.to_owned();
                shown.text.push_str(update["content"]["text"].as_str().unwrap());
                shown.take(ours);
            }
            "tool_call" => {
                let id = update["toolCallId"].as_str().unwrap().to_owned();
                assert!(!self.calls.contains_key(&id), "announced twice: {update}");
                let call = self.calls.entry(id).or_default();
                // ACP leaves out what is the default.
                call.members.insert("kind".into(), "other".into());
                call.members.insert("status".into(), "pending".into());
                call.take(update);
            }
            "tool_call_update" => {
                let id = update["toolCallId"].as_str().unwrap();
                if !ours["void"].is_null() {
                    assert!(self.calls.remove(id).is_some(), "updated and never announced: {update}");
                    return;
                }
                let call = self.calls.get_mut(id);
                call.unwrap_or_else(|| panic!("updated and never announced: {update}")).take(update);
            }
            "plan" => self.plan = update["entries"].clone(),
            "session_info_update" | "usage_update" => {}
            other => panic!("unknown: {other}"),
        }
    }

    fn note(&mut self, params: &Value) {
        let id = params["item"].as_str().unwrap().to_owned();
        let text = params["text"].as_str().unwrap_or_default();
        let shown = self.notes.entry(id.clone()).or_default();
        shown.kind = params["kind"].as_str().unwrap().to_owned();
        shown.take(&params["_meta"]["turnstream"]);
        match params["news"].as_str().unwrap() {
            "started" | "moved" => {}
            "delta" => shown.text.push_str(text),
            "replaced" => text.clone_into(&mut shown.text),
            "ended" => shown.ended = whole_is_null(&params["ended"]),
            "void" => drop(self.notes.remove(&id)),
            other => panic!("unknown: {other}"),
        }
    }

    /// Late news of what is on the screen.
    fn revised(&mut self, params: &Value) {
        let id = params["item"].as_str().unwrap();
        if !params["void"].is_null() {
            self.messages.remove(id);
            self.calls.remove(id);
            self.notes.remove(id);
            return;
        }
        if let Some(call) = self.calls.get_mut(id) {
            if params["toolCall"].is_object() {
                call.take(&params["toolCall"]);
            }
            if let Some(state) = params["state"].as_str() {
                let status = if state == "completed" { "completed" } else { "failed" };
                call.members.insert("status".into(), status.into());
                call.ended = call_end(&json!({"state": state, "incomplete": call.ended["incomplete"]}));
            }
            return;
        }
        let (text, state) = (params["text"].as_str(), &params["state"]);
        let kind = match (params["kind"].as_str().unwrap(), params["role"].as_str()) {
            ("message", Some("user")) => "user_message_chunk",
            ("message", _) => "agent_message_chunk",
            ("reasoning", _) => "agent_thought_chunk",
            ("plan", _) if params["parent"].is_null() => return,
            (kind, _) => kind,
        };
        let is_note = !kind.ends_with("_chunk");
        let shown = if is_note { &mut self.notes } else { &mut self.messages };
        let shown = shown.entry(id.to_owned()).or_default();
        kind.clone_into(&mut shown.kind);
        shown.parent = params["parent"].clone();
        if let Some(text) = text {
            text.clone_into(&mut shown.text);
            shown.ended["incomplete"] = false.into();
        }
        if !state.is_null() {
            shown.ended["state"] = state.clone();
        }
        shown.ended = whole_is_null(&shown.ended);
    }

    /// The screen shows what the fold says: every text once and whole, everybody's under their own name.
    #[track_caller]
    pub(crate) fn assert_shows(&self, state: &State) {
        let mut seen = (BTreeSet::new(), BTreeSet::new());
        for item in &state.items {
            let (id, text) = (item.id.as_str(), item.text.as_deref().unwrap_or_default());
            let parent = item.parent.as_ref().map_or(Value::Null, |parent| parent.as_str().into());
            match item.kind {
                ItemKind::Message | ItemKind::Reasoning => {
                    let shown = self.messages.get(id).cloned().unwrap_or_default();
                    assert_eq!(shown.text, text, "{id}");
                    if !text.is_empty() {
                        assert_eq!(shown.parent, parent, "{id}");
                        assert_eq!(shown.ended.is_null(), is_whole(item.state, item.incomplete), "{id}");
                    }
                    seen.0.insert(id);
                }
                ItemKind::Tool => {
                    let call = &self.calls[id];
                    assert_eq!(call.parent, parent, "{id}");
                    let input = item.tool.as_ref().and_then(|tool| tool.input.clone());
                    assert_eq!(call.members.get("rawInput"), input.as_ref(), "{id}");
                    let status = call.members.get("status").and_then(Value::as_str).unwrap_or("pending");
                    match item.state {
                        ItemStage::Streaming => {}
                        ItemStage::Completed => assert_eq!(status, "completed", "{id}"),
                        ItemStage::Failed | ItemStage::Abandoned | ItemStage::Unknown => {
                            assert_eq!(status, "failed", "{id}");
                        }
                    }
                    seen.1.insert(id);
                }
                ItemKind::Plan | ItemKind::File | ItemKind::Compaction => {
                    if item.kind != ItemKind::Plan || !parent.is_null() {
                        assert_eq!(self.notes[id].text, text, "{id}");
                        assert_eq!(self.notes[id].parent, parent, "{id}");
                    }
                }
            }
        }
        let shown = self.messages.iter().filter(|(_, message)| !message.text.is_empty());
        let extra: Vec<&String> =
            shown.map(|(id, _)| id).filter(|id| !seen.0.contains(id.as_str())).collect();
        assert!(extra.is_empty(), "void and still shown: {extra:?}");
        let extra: Vec<&String> = self.calls.keys().filter(|id| !seen.1.contains(id.as_str())).collect();
        assert!(extra.is_empty(), "void and still shown: {extra:?}");
    }

    /// Without what a client that came later does not get: messages that never had a text, terminators of
    /// the past, and which of several plans was the last to change.
    pub(crate) fn for_comparison(mut self) -> Self {
        self.plan = Value::Null;
        for call in self.calls.values_mut() {
            call.texts.retain(|_, text| !text.is_empty());
        }
        self.messages.retain(|_, message| !message.text.is_empty());
        self.ended.clear();
        self
    }
}

impl Message {
    fn take(&mut self, ours: &Value) {
        if !ours["parent"].is_null() {
            self.parent = ours["parent"].clone();
        }
        if let Some(text) = ours["replace"]["text"].as_str() {
            text.clone_into(&mut self.text);
        }
        if !ours["ended"].is_null() {
            self.ended = whole_is_null(&ours["ended"]);
        }
    }
}

impl Call {
    fn take(&mut self, update: &Value) {
        for (member, value) in update.as_object().unwrap() {
            if value.as_array().is_some_and(Vec::is_empty) {
                self.members.remove(member);
            } else if member != "_meta" && member != "sessionUpdate" {
                self.members.insert(member.clone(), value.clone());
            }
        }
        let ours = &update["_meta"]["turnstream"];
        if !ours["parent"].is_null() {
            self.parent = ours["parent"].clone();
        }
        let field = |mark: &Value| mark["field"].as_str().unwrap().to_owned();
        if let Some(text) = ours["delta"]["text"].as_str() {
            self.texts.entry(field(&ours["delta"])).or_default().push_str(text);
        }
        if let Some(text) = ours["replace"]["text"].as_str() {
            self.texts.insert(field(&ours["replace"]), text.to_owned());
        }
        if self.members.contains_key("rawInput") {
            // The arguments are known whole: what was written of them is history.
            self.texts.remove("input");
        }
        if !ours["ended"].is_null() {
            self.ended = call_end(&ours["ended"]);
        }
    }
}

fn is_whole(stage: ItemStage, incomplete: bool) -> bool {
    matches!(stage, ItemStage::Streaming | ItemStage::Completed) && !incomplete
}

/// What matters of an end; nothing for a whole one.
fn whole_is_null(ended: &Value) -> Value {
    let incomplete = ended["incomplete"] == true;
    let is_whole = (ended["state"] == "completed" || ended["state"].is_null()) && !incomplete;
    if is_whole { Value::Null } else { json!({"state": ended["state"], "incomplete": incomplete}) }
}

/// A call that failed says so by its status.
fn call_end(ended: &Value) -> Value {
    let ended = whole_is_null(ended);
    if ended["state"] == "failed" && ended["incomplete"] == false { Value::Null } else { ended }
}
