//! A capture of the real server: what its driver did, what the server sent and when, and what it had stored
//! afterwards.

use crate::playback::Fault;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use turnstream_opencode_client::conversation::Budget;
use turnstream_opencode_client::event::Event as AgentEvent;
use turnstream_opencode_client::translate::Stored;

/// A capture of one stream.
#[derive(Clone)]
pub(crate) struct Capture {
    pub(crate) session: String,
    pub(crate) steps: Vec<(u64, Step)>,
    snapshot: Value,
    full: Vec<Value>,
    /// The prompts that are ours when nothing is wrong.
    pub(crate) ours: BTreeSet<String>,
}

/// One thing that happens in it.
#[derive(Clone)]
pub(crate) enum Step {
    Event(Value, Arc<AgentEvent>),
    Prompt {
        message: String,
        text: String,
    },
    Abort,
    /// The server is killed, and another one started on the same data.
    Death,
    /// The stream of the other one is there.
    Reconnect,
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/opencode").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(fixture(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The events of a stream, at their times.
fn stream(name: &str) -> Vec<(u64, Step)> {
    let times: Vec<u64> = read(&format!("{name}.times.tsv"))
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').nth(1).unwrap().parse().unwrap())
        .collect();
    let lines = read(&format!("{name}.sse"));
    let event = |(place, line): (usize, &str)| {
        let data = line.strip_prefix("data: ")?;
        let event: Value = serde_json::from_str(data).unwrap();
        let parsed = Arc::new(AgentEvent::parse(data.as_bytes()).unwrap());
        Some((times.get(place).copied().unwrap_or_default(), Step::Event(event, parsed)))
    };
    lines.lines().enumerate().filter_map(event).collect()
}

fn user_texts(events: &[Value], session: &str) -> Vec<(String, String)> {
    let parts = events.iter().filter(|event| event["type"] == "message.part.updated");
    let of = parts.map(|event| &event["properties"]["part"]).filter(|part| part["sessionID"] == session);
    let text = of.filter(|part| part["type"] == "text" && part["synthetic"] != true);
    text.map(|part| (part["messageID"].as_str().unwrap().into(), part["text"].as_str().unwrap().into()))
        .collect()
}

impl Capture {
    /// The capture of that name, seen from the first session that was prompted.
    pub(crate) fn load(name: &str) -> Self {
        Self::of(name, stream(name))
    }

    /// The same of a server that is killed, with the stream of the one that was started after it.
    pub(crate) fn load_killed(name: &str) -> Self {
        let (mut steps, restarted) = (stream(name), stream(&format!("{name}.after-restart")));
        let notes = read(&format!("{name}.http.jsonl"));
        let notes = notes.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut killed =
            notes.filter(|note| note["note"].is_string()).map(|note| note["t"].as_u64().unwrap());
        steps.push((killed.next_back().unwrap(), Step::Death));
        steps.push((restarted[0].0, Step::Reconnect));
        steps.extend(restarted);
        Self::of(name, steps)
    }

    /// What the driver of a capture asked, with the answers.
    pub(crate) fn calls(name: &str) -> Vec<Value> {
        let calls = read(&format!("{name}.http.jsonl"));
        let calls = calls.lines().filter(|line| !line.trim().is_empty());
        calls.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The same with another stream. An event that was in its own comes at its time, and any other at that
    /// of the last.
    pub(crate) fn with_stream(&self, events: Vec<Value>) -> Self {
        let time = |event: &Value| {
            let own =
                |(_, step): &&(u64, Step)| matches!(step, Step::Event(own, _) if own["id"] == event["id"]);
            self.steps.iter().find(own).map(|(at, _)| *at)
        };
        let mut steps: Vec<(u64, Step)> =
            self.steps.iter().filter(|(_, step)| !matches!(step, Step::Event(..))).cloned().collect();
        let mut last = 0;
        for event in &events {
            last = time(event).unwrap_or(last).max(last);
            let parsed = Arc::new(AgentEvent::parse(event.to_string().as_bytes()).unwrap());
            let place = steps.partition_point(|(at, _)| *at <= last);
            steps.insert(place, (last, Step::Event(event.clone(), parsed)));
        }
        Self { steps, full: events, ..self.clone() }
    }

    fn of(name: &str, mut steps: Vec<(u64, Step)>) -> Self {
        let base = name.split('.').next().unwrap();
        let event = |(_, step): &(u64, Step)| match step {
            Step::Event(event, _) => Some(event.clone()),
            Step::Prompt { .. } | Step::Abort | Step::Death | Step::Reconnect => None,
        };
        let events: Vec<Value> = steps.iter().filter_map(event).collect();
        let calls = Self::calls(base);
        let path = |call: &Value| call["request"]["path"].as_str().unwrap_or_default().to_owned();
        let is_ours = |session: &str| {
            let session = session.to_owned();
            move |path: &str, verb: &str| path.starts_with(&format!("/session/{session}/{verb}"))
        };
        let created =
            calls.iter().find(|call| path(call) == "/session" && call["request"]["method"] == "POST");
        let session = created.unwrap()["response"]["body"]["id"].as_str().unwrap().to_owned();
        let ours = is_ours(&session);
        let mut said = user_texts(&events, &session);
        let mut names: BTreeSet<String> = BTreeSet::new();
        for call in &calls {
            let at = call["t"].as_u64().unwrap_or_default();
            let step = if ours(&path(call), "prompt_async") && call["response"]["status"] == 204 {
                let text =
                    call["request"]["body"]["parts"][0]["text"].as_str().unwrap_or_default().to_owned();
                let named = call["request"]["body"]["messageID"].as_str().map(str::to_owned);
                // The driver repeated a prompt under its own name: that is the same prompt.
                if named.as_ref().is_some_and(|name| !names.insert(name.clone())) {
                    continue;
                }
                let claimed = said.iter().position(|(_, user)| *user == text);
                let message = named.or_else(|| claimed.map(|place| said.remove(place).0));
                let message = message.unwrap_or_else(|| format!("msg_never_stored_{at}"));
                Step::Prompt { message, text }
            } else if ours(&path(call), "abort") {
                Step::Abort
            } else {
                continue;
            };
            let place = steps.partition_point(|(time, _)| *time < at);
            steps.insert(place, (at, step));
        }
        let snapshot = std::fs::read(fixture(&format!("{base}.snapshot.json")))
            .map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap());
        let mut capture = Self { session, steps, snapshot, full: events, ours: BTreeSet::new() };
        let budget = Budget { steps: None, ..Budget::default() };
        capture.ours = capture.run(&Fault::None, budget).ours;
        capture
    }

    /// The events of the stream, as they can be named in a fault.
    pub(crate) fn events(&self) -> &[Value] {
        &self.full
    }

    /// The last prompt that is ours. Names of messages ascend.
    pub(crate) fn last_prompt(&self) -> &str {
        self.ours.last().unwrap()
    }

    /// The messages as the server had them after all was over.
    pub(crate) fn stored(&self) -> Vec<Stored> {
        serde_json::from_value(self.snapshot["after"][&self.session]["message"].clone()).unwrap()
    }

    /// The model's texts as the server had them after all was over; texts that a retry left behind are
    /// empty there.
    pub(crate) fn stored_texts(&self) -> Vec<String> {
        self.texts_of(|_| true)
    }

    /// Those of them that answer prompts of ours.
    pub(crate) fn stored_answers(&self) -> Vec<String> {
        self.texts_of(|info| self.ours.iter().any(|prompt| info["parentID"] == prompt.as_str()))
    }

    fn texts_of(&self, counts: impl Fn(&Value) -> bool) -> Vec<String> {
        let messages =
            self.snapshot["after"][&self.session]["message"].as_array().cloned().unwrap_or_default();
        let is_answer = |info: &Value| info["role"] == "assistant" && counts(info);
        let answers = messages.iter().filter(|message| is_answer(&message["info"]));
        let shown = answers.filter(|message| message["info"]["summary"] != true);
        shown
            .flat_map(|message| message["parts"].as_array().unwrap().clone())
            .filter(|part| part["type"] == "text")
            .map(|part| part["text"].as_str().unwrap().to_owned())
            .filter(|text| !text.is_empty())
            .collect()
    }

    /// The same with its events changed; what cannot be read then is left out, as the bus does.
    pub(crate) fn with_events(&self, mut change: impl FnMut(&Value) -> Value) -> Self {
        let mut changed = self.clone();
        changed.steps = self
            .steps
            .iter()
            .filter_map(|(at, step)| match step {
                Step::Event(event, _) => {
                    let new = change(event);
                    let parsed = AgentEvent::parse(new.to_string().as_bytes()).ok()?;
                    // What the server itself has is not changed.
                    Some((*at, Step::Event(event.clone(), Arc::new(parsed))))
                }
                other => Some((*at, other.clone())),
            })
            .collect();
        changed
    }
}
