//! Plays a capture to a conversation: the prompts and aborts its driver sent, the events the server sent, at their times,
//! with faults in between.

use crate::server::Server;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use turnstream_agents::opencode::conduct::{Answer, Budget, Call, Conductor, Pace, PromptAnswer};
use turnstream_agents::opencode::event::Event as AgentEvent;
use turnstream_agents::opencode::solo::Solo;
use turnstream_model::check::{Checker, Tail};
use turnstream_model::event::{ErrorClass, Event, ItemKind, Outcome, Permissions, Role, StopReason};
use turnstream_model::fold::Fold;
use turnstream_model::time::Time;

const START: u64 = 1_794_770_000_000;
/// How long a conversation may go on after the last event.
const PATIENCE: u64 = 10 * 60 * 1_000;

/// A capture of one stream.
#[derive(Clone)]
pub(crate) struct Capture {
    pub(crate) session: String,
    steps: Vec<(u64, Step)>,
    snapshot: Value,
    full: Vec<Value>,
    /// The prompts that are ours when nothing is wrong.
    ours: BTreeSet<String>,
}

#[derive(Clone)]
enum Step {
    Event(Value, Arc<AgentEvent>),
    Prompt { message: String, text: String },
    Abort,
}

/// What is done to the stream.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    None,
    Drop(BTreeSet<usize>),
    Repeat(usize),
    /// From that event on to before that one nothing is heard.
    Cut(usize, usize),
    /// The owner dies before that event, and another takes up before that one.
    Crash(usize, usize),
    /// These come only after the next prompt has been sent.
    Delay(BTreeSet<usize>),
}

/// What came of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Played {
    pub(crate) turns: Vec<End>,
    /// What the model said in the session itself.
    pub(crate) texts: Vec<String>,
    pub(crate) aborts: usize,
    /// The capture has something that cannot have happened with this fault.
    pub(crate) unplayable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Completed(StopReason),
    Cancelled,
    Failed(ErrorClass),
    Lost,
    Open,
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/opencode").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(fixture(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
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
        Self::load_session(name, None)
    }

    pub(crate) fn load_session(name: &str, session: Option<&str>) -> Self {
        let base = name.split('.').next().unwrap();
        let times: Vec<u64> = read(&format!("{name}.times.tsv"))
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split('\t').nth(1).unwrap().parse().unwrap())
            .collect();
        let lines = read(&format!("{name}.sse"));
        let mut steps: Vec<(u64, Step)> = Vec::new();
        let mut events = Vec::new();
        for (place, line) in lines.lines().enumerate() {
            if let Some(data) = line.strip_prefix("data: ") {
                let event: Value = serde_json::from_str(data).unwrap();
                events.push(event.clone());
                let parsed = Arc::new(AgentEvent::parse(data.as_bytes()).unwrap());
                steps.push((times.get(place).copied().unwrap_or_default(), Step::Event(event, parsed)));
            }
        }
        let calls: Vec<Value> = read(&format!("{base}.http.jsonl"))
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let path = |call: &Value| call["request"]["path"].as_str().unwrap_or_default().to_owned();
        let is_ours = |session: &str| {
            let session = session.to_owned();
            move |path: &str, verb: &str| path.starts_with(&format!("/session/{session}/{verb}"))
        };
        let session = session.map(str::to_owned).unwrap_or_else(|| {
            let created =
                calls.iter().find(|call| path(call) == "/session" && call["request"]["method"] == "POST");
            created.unwrap()["response"]["body"]["id"].as_str().unwrap().to_owned()
        });
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

    /// The model's texts as the server had them after all was over; texts that a retry left behind are empty there.
    pub(crate) fn stored_texts(&self) -> Vec<String> {
        let messages =
            self.snapshot["after"][&self.session]["message"].as_array().cloned().unwrap_or_default();
        let answers = messages.iter().filter(|message| message["info"]["role"] == "assistant");
        let shown = answers.filter(|message| message["info"]["summary"] != true);
        shown
            .flat_map(|message| message["parts"].as_array().unwrap().clone())
            .filter(|part| part["type"] == "text")
            .map(|part| part["text"].as_str().unwrap().to_owned())
            .filter(|text| !text.is_empty())
            .collect()
    }

    pub(crate) fn play(&self, fault: &Fault) -> Played {
        self.play_with(fault, Budget { steps: None, ..Budget::default() }).0
    }

    /// Plays it; also returns the log.
    pub(crate) fn play_with(&self, fault: &Fault, budget: Budget) -> (Played, Vec<Event>) {
        self.run(fault, budget).judge()
    }

    fn run(&self, fault: &Fault, budget: Budget) -> Stage {
        let conductor = Conductor::new(&self.session, Pace::default(), budget, Time(START));
        let mut stage = Stage {
            solo: Solo::new(conductor, &self.session, "/workspace", Permissions::Ask, Time(START)),
            server: Server::default(),
            session: self.session.clone(),
            now: START,
            log: Vec::new(),
            aborts: 0,
            ours: BTreeSet::new(),
            late: 0,
            dead: false,
            unplayable: false,
        };
        stage.solo.connected(None, Time(START));
        stage.turn_over();
        let (mut number, mut aborted) = (0, false);
        let mut delayed = Vec::new();
        for (at, step) in &self.steps {
            stage.advance(START + at + stage.late);
            match step {
                // The server was told to stop before the capture's driver told it: what it did in between it would not do.
                Step::Event(..) if stage.aborts > 0 && !aborted => number += 1,
                Step::Event(event, parsed) => {
                    stage.server.sends(event);
                    let index = number;
                    number += 1;
                    match fault {
                        Fault::Drop(dropped) if dropped.contains(&index) => continue,
                        Fault::Cut(from, to) | Fault::Crash(from, to) if (*from..*to).contains(&index) => {
                            stage.dead = matches!(fault, Fault::Crash(..));
                            continue;
                        }
                        Fault::Delay(late) if late.contains(&index) => {
                            delayed.push(parsed.clone());
                            continue;
                        }
                        Fault::Cut(_, to) if *to == index => stage.reconnect(),
                        Fault::Crash(_, to) if *to == index => stage.take_up(),
                        _ => {}
                    }
                    stage.deliver(parsed);
                    if matches!(fault, Fault::Repeat(twice) if *twice == index) {
                        stage.deliver(parsed);
                    }
                }
                // Whoever would have sent it is dead, so it was not sent; nor was what it caused.
                Step::Prompt { .. } | Step::Abort if stage.dead => stage.unplayable = true,
                Step::Prompt { message, text } => {
                    if !matches!(fault, Fault::None) && self.ours.contains(message) {
                        stage.wait_for_end();
                    }
                    stage.prompt(message, text);
                    for event in std::mem::take(&mut delayed) {
                        stage.deliver(&event);
                    }
                }
                Step::Abort if stage.aborts > 0 => aborted = true,
                Step::Abort => {
                    stage.solo.cancel(Time(stage.now));
                    // The capture has its effect already.
                    stage.turn_over();
                    stage.aborts -= 1;
                }
            }
        }
        match fault {
            Fault::Cut(_, to) if *to >= number => stage.reconnect(),
            Fault::Crash(_, to) if *to >= number => stage.take_up(),
            _ => {}
        }
        stage.finish();
        stage
    }
}

struct Stage {
    solo: Solo,
    server: Server,
    session: String,
    now: u64,
    log: Vec<Event>,
    aborts: i64,
    /// Prompts that were sent as ours, and not by another client while a turn ran.
    ours: BTreeSet<String>,
    /// How much later than in the capture everything happens, because its driver would have had to wait.
    late: u64,
    /// Nobody owns the conversation.
    dead: bool,
    /// The capture has something that cannot have happened with this fault.
    unplayable: bool,
}

impl Stage {
    fn deliver(&mut self, event: &Arc<AgentEvent>) {
        self.solo.event(event, Time(self.now));
        self.turn_over();
    }

    /// A prompt of the capture; it is ours if it can be sent now, and else of another client.
    fn prompt(&mut self, message: &str, text: &str) {
        if self.solo.is_busy() {
            return;
        }
        let content = vec![json!({ "type": "text", "text": text })];
        self.ours.insert(message.to_owned());
        self.solo.prompt(message.to_owned(), content, Time(self.now)).unwrap();
        self.turn_over();
    }

    /// Another owner, who knows the log and nothing else.
    fn take_up(&mut self) {
        self.dead = false;
        let fold = Fold::of(&self.log);
        let budget = Budget { steps: None, ..Budget::default() };
        let conductor = Conductor::new(&self.session, Pace::default(), budget, Time(self.now));
        self.solo = Solo::resume(fold.state(), conductor, Permissions::Ask, Time(self.now));
        self.solo.connected(None, Time(self.now));
        self.turn_over();
    }

    /// Prompts are sent one at a time.
    fn wait_for_end(&mut self) {
        let began = self.now;
        for _ in 0..1_000 {
            let Some(due) = self.solo.deadline().filter(|_| self.solo.is_busy()) else { break };
            self.advance(due.0);
        }
        self.late += self.now - began;
    }

    fn reconnect(&mut self) {
        self.solo.connected(Some("the stream was cut".to_owned()), Time(self.now));
        self.turn_over();
    }

    /// Makes the calls and takes the events.
    fn turn_over(&mut self) {
        while let Some(call) = self.solo.call() {
            let answer = match call {
                Call::Prompt { .. } => Answer::Prompt(PromptAnswer::Accepted),
                Call::Message { message, .. } => Answer::Message(self.server.message(&message).map(Box::new)),
                Call::Shelf { children } => {
                    Answer::Shelf(Ok(Box::new(self.server.shelf(&self.session, &children))))
                }
                Call::Abort => {
                    self.aborts += 1;
                    continue;
                }
                Call::Reply { .. } | Call::Answer { .. } | Call::Refuse(_) | Call::Adopt(_) => continue,
            };
            self.solo.answer(answer, Time(self.now));
        }
        while let Some(event) = self.solo.take_event() {
            self.log.push(event);
        }
    }

    fn advance(&mut self, to: u64) {
        if self.dead {
            self.now = self.now.max(to);
            return;
        }
        for _ in 0..10_000 {
            let Some(due) = self.solo.deadline().filter(|due| due.0 <= to) else { break };
            self.now = self.now.max(due.0);
            self.solo.tick(Time(self.now));
            self.turn_over();
        }
        self.now = self.now.max(to);
    }

    fn finish(&mut self) {
        let end = self.now + PATIENCE;
        self.advance(end);
    }

    fn judge(self) -> (Played, Vec<Event>) {
        let mut fold = Fold::new();
        let mut checker = Checker::new();
        for event in &self.log {
            fold.apply(event);
            checker.line(&event.to_json());
        }
        let report = checker.finish(Tail::Live);
        assert!(report.violations.is_empty(), "{:#?}\n{}", report.violations, transcript(&self.log));
        let state = fold.state();
        let turns = state.turns.iter().map(|turn| match turn.outcome {
            Some(Outcome::Completed) => End::Completed(turn.stop_reason.unwrap()),
            Some(Outcome::Cancelled) => End::Cancelled,
            Some(Outcome::Failed) => End::Failed(turn.error.as_ref().unwrap().class),
            Some(Outcome::Lost) => End::Lost,
            None => End::Open,
        });
        let said = state.items.iter().filter(|item| {
            let is_answer = item.kind == ItemKind::Message && item.role == Some(Role::Assistant);
            is_answer && item.parent.is_none()
        });
        let texts = said.filter_map(|item| item.text.clone()).filter(|text| !text.is_empty());
        let played = Played {
            turns: turns.collect(),
            texts: texts.collect(),
            aborts: self.aborts.max(0) as usize,
            unplayable: self.unplayable,
        };
        (played, self.log)
    }
}

/// The whole log as text, a line for each event. The times are the test's own, and long texts are shown by their beginning
/// and their length.
pub(crate) fn transcript(log: &[Event]) -> String {
    let line = |event: &Event| {
        let mut value: Value = serde_json::from_str(&event.to_json()).unwrap();
        value.as_object_mut().unwrap().remove("time");
        shorten(&mut value);
        value.to_string() + "\n"
    };
    log.iter().map(line).collect()
}

fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.chars().count() > 300 => {
            let start: String = text.chars().take(60).collect();
            *text = format!("{start}… ({} bytes)", text.len());
        }
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::Object(members) => members.values_mut().for_each(shorten),
        _ => {}
    }
}
