//! One turn as one run. The client's ids are its own, and what it has is not sent again.

use super::bindings::bind;
use super::subagents::Subagents;
use crate::chat::{Progress, TurnWriter, is_waiting};
use crate::stream::{EventFrames, ReplayFrames};
use serde_json::{Value, json};
use std::collections::HashSet;
use turnstream_dialects::ag_ui::{AgUi, before, prompt_messages};
use turnstream_dialects::{Dialect, FrameSink};
use turnstream_model::event::{Body, Event, Permissions};
use turnstream_model::fold::State;
use turnstream_model::id::{PromptId, TurnId};

/// The messages before the turn, as a list of all messages begins.
pub(super) enum Earlier {
    /// Those of the client, which end with what it says now. `own` are the ids of what the user said in them.
    Clients { messages: Vec<Value>, own: HashSet<String> },
    /// Those of the session, and the client's own ones for its system.
    Sessions(Vec<Value>),
}

impl Earlier {
    /// The client's messages, with which it has sent this prompt.
    pub(super) fn clients(messages: Vec<Value>, prompt: &PromptId) -> Self {
        let users = messages.iter().filter(|message| message["role"] == "user");
        let ids = users.filter_map(|message| message["id"].as_str().map(str::to_owned));
        // A message without an id, or that was sent before, is known by the prompt.
        let own = ids.chain([prompt.to_string()]).collect();
        Self::Clients { messages, own }
    }

    fn has_own(&self, id: &Value) -> bool {
        match self {
            Self::Clients { own, .. } => id.as_str().is_some_and(|id| own.contains(id)),
            Self::Sessions(_) => false,
        }
    }
}

pub(super) struct Writer {
    encoder: AgUi,
    turn: Option<TurnId>,
    run: Run,
}

/// What the client calls the run, and what it has.
pub(super) struct Run {
    pub(super) thread: String,
    pub(super) run: String,
    pub(super) earlier: Earlier,
    /// Whether the client knows protocol 1.0. Older ones refuse what they do not know.
    pub(super) is_current: bool,
    /// The end of the run, while it is not known whether the turn waits.
    held: Option<Value>,
    has_begun: bool,
    /// Whether the message that is being written is one that the client has.
    skips: bool,
    subagents: Subagents,
}

impl Run {
    pub(super) fn new(thread: String, run: String, earlier: Earlier, is_current: bool) -> Self {
        let (held, subagents) = (None, Subagents::default());
        Self { thread, run, earlier, is_current, held, has_begun: false, skips: false, subagents }
    }

    /// Begins it before its turn has begun.
    fn begin(&mut self, out: &mut impl FrameSink) {
        self.has_begun = true;
        let (thread, run) = (&self.thread, &self.run);
        let started = json!({
            "type": "RUN_STARTED", "threadId": thread, "runId": run, "protocolVersion": "1.0",
        });
        self.write(started, out);
    }

    /// Writes an event, with those of subagents around it. Clients before 1.0 get what they survive.
    fn write(&mut self, mut event: Value, out: &mut impl FrameSink) {
        if !self.is_current {
            if downgrade(&mut event) {
                out.frame(None, event.to_string().as_bytes());
            }
            return;
        }
        let before = self.subagents.before(&event);
        let all = before.iter().chain([&event]);
        all.for_each(|event| out.frame(None, event.to_string().as_bytes()));
        if let Some(after) = self.subagents.after(&event) {
            out.frame(None, after.to_string().as_bytes());
        }
    }
}

impl Writer {
    pub(super) fn new(state: &State, run: Run) -> Self {
        Self { encoder: AgUi::continue_after(state), turn: None, run }
    }

    fn progress(&self, turn: Option<&TurnId>) -> Progress {
        let state = self.encoder.state();
        match turn {
            Some(turn) if is_waiting(state, turn) && !is_answered_by_rule(state, turn) => Progress::Waiting,
            Some(turn) if is_waiting(state, turn) => Progress::Running,
            Some(turn) if state.open_turn().is_some_and(|open| open.turn == *turn) => Progress::Running,
            Some(_) | None => Progress::Ended,
        }
    }
}

impl TurnWriter for Writer {
    /// A page that joins gets the run with all messages so far, which end with the prompt. It has them then.
    fn queued(&mut self, prompt: &PromptId, state: &State, out: &mut ReplayFrames<'_>) {
        let Earlier::Sessions(messages) = &self.run.earlier else { return };
        let said = state.queue.iter().find(|queued| queued.prompt == *prompt).map(prompt_messages);
        let messages: Vec<Value> = messages.iter().cloned().chain(said.into_iter().flatten()).collect();
        self.run.begin(out);
        self.run.write(json!({"type": "MESSAGES_SNAPSHOT", "messages": messages}), out);
        self.run.earlier = Earlier::clients(messages, prompt);
    }

    fn catch_up(&mut self, state: &State, turn: &TurnId, out: &mut ReplayFrames<'_>) -> Progress {
        self.turn = Some(turn.clone());
        // A turn that has ended has to be in the encoder's state to be written.
        let mut sink = Filter { run: &mut self.run, out };
        AgUi::write_turn(state, turn, &mut sink);
        self.encoder = AgUi::continue_after(state);
        self.progress(Some(turn))
    }

    fn passed(&mut self, event: &Event) {
        self.encoder.pass_over(event);
    }

    fn event(&mut self, event: &Event, out: &mut EventFrames<'_>) -> Progress {
        if let (Body::TurnStarted { .. }, None) = (&event.draft.body, &self.turn) {
            self.turn = event.draft.turn.clone();
        }
        self.encoder.event(event, &mut Filter { run: &mut self.run, out });
        let turn = self.turn.clone();
        self.progress(turn.as_ref())
    }

    fn pause(&mut self, out: &mut impl FrameSink) {
        if let Some(end) = self.run.held.take() {
            self.run.write(end, out);
        }
    }

    fn withdrawn(&mut self, out: &mut EventFrames<'_>) {
        if !self.run.has_begun {
            self.run.begin(out);
        }
        let error = json!({"type": "RUN_ERROR", "message": "The prompt was withdrawn", "code": "withdrawn"});
        out.frame(None, error.to_string().as_bytes());
    }
}

/// Whether a rule of the session answers all that the turn waits for.
fn is_answered_by_rule(state: &State, turn: &TurnId) -> bool {
    let is_question =
        state.questions.iter().any(|asked| asked.is_open() && asked.turn.as_ref() == Some(turn));
    !is_question && matches!(state.session.permissions, Some(Permissions::Allow | Permissions::Deny))
}

/// Writes a thread without an open turn as one run of the client's.
pub(super) fn write_thread(state: &State, mut run: Run, out: &mut ReplayFrames<'_>) {
    AgUi::replay(state, &mut Filter { run: &mut run, out });
}

/// Passes frames on with the client's ids, and without what the client has.
struct Filter<'a, S> {
    run: &'a mut Run,
    out: &'a mut S,
}

impl<S: FrameSink> FrameSink for Filter<'_, S> {
    fn frame(&mut self, name: Option<&str>, json: &[u8]) {
        match name.unwrap_or_default() {
            // By far the most frames, and without anything to change.
            "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" if !self.run.skips => {
                if self.run.is_current || !has_subagent(json) {
                    self.out.frame(None, json);
                }
            }
            _ => {
                let Ok(event) = serde_json::from_slice::<Value>(json) else { return };
                self.changed(event);
            }
        }
    }
}

impl<S: FrameSink> Filter<'_, S> {
    fn changed(&mut self, mut event: Value) {
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        if self.run.skips {
            self.run.skips = kind != "TEXT_MESSAGE_END";
            return;
        }
        // A message of the user comes whole.
        if kind == "TEXT_MESSAGE_START" && self.run.earlier.has_own(&event["messageId"]) {
            self.run.skips = true;
            return;
        }
        match kind.as_str() {
            "RUN_STARTED" => {
                // A turn that did not wait after all goes on in the same run.
                if self.run.held.take().is_some() || self.run.has_begun {
                    return;
                }
                self.run.has_begun = true;
                event["threadId"] = json!(self.run.thread);
                event["runId"] = json!(self.run.run);
            }
            "RUN_FINISHED" => {
                event["threadId"] = json!(self.run.thread);
                event["runId"] = json!(self.run.run);
                if let Some(interrupts) =
                    event.pointer_mut("/outcome/interrupts").and_then(Value::as_array_mut)
                {
                    bind(interrupts, &self.run.run);
                    self.run.held = Some(event);
                    return;
                }
            }
            "MESSAGES_SNAPSHOT" => self.complete(&mut event),
            _ => {}
        }
        self.run.write(event, self.out);
    }

    /// Puts the messages before the turn in front of a list.
    fn complete(&self, event: &mut Value) {
        let Some(listed) = event["messages"].as_array_mut() else { return };
        let mut all = match &self.run.earlier {
            Earlier::Clients { messages, .. } => {
                listed.retain(|message| !self.run.earlier.has_own(&message["id"]));
                messages.clone()
            }
            Earlier::Sessions(messages) => messages.clone(),
        };
        let ids: HashSet<&str> = listed.iter().filter_map(|message| message["id"].as_str()).collect();
        all.retain(|message| message["id"].as_str().is_none_or(|id| !ids.contains(id)));
        all.append(listed);
        event["messages"] = json!(all);
    }
}

fn has_subagent(json: &[u8]) -> bool {
    memchr::memmem::find(json, b"\"subagentRunId\":").is_some()
}

/// Takes out what clients before 1.0 do not know. False if nothing is left: the work of a subagent.
fn downgrade(event: &mut Value) -> bool {
    let Some(members) = event.as_object_mut() else { return false };
    if members.contains_key("subagentRunId") {
        return false;
    }
    members.remove("protocolVersion");
    if members.get("outcome").is_some_and(|outcome| outcome["type"] == "cancelled") {
        members.remove("outcome");
    }
    if let Some(messages) = members.get_mut("messages").and_then(Value::as_array_mut) {
        messages.retain(|message| message.get("subagentRunId").is_none());
    }
    true
}

/// The messages of a session before a turn, with those that the client has for its system.
pub(super) fn earlier(state: &State, turn: Option<&TurnId>, clients: &[Value]) -> Earlier {
    Earlier::Sessions(system(clients).chain(before(turn, state)).collect())
}

/// The client's own messages, if a list has all of the session's.
pub(super) fn nothing_earlier(clients: &[Value]) -> Earlier {
    Earlier::Sessions(system(clients).collect())
}

fn system(clients: &[Value]) -> impl Iterator<Item = Value> {
    let is_system = |message: &&Value| message["role"] == "system" || message["role"] == "developer";
    clients.iter().filter(is_system).cloned()
}
