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
    /// That event comes only after that later one.
    Late(usize, usize),
    /// From that event on to before that one only states are heard, after a mark.
    Lag(usize, usize),
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

    /// The last prompt that is ours. Names of messages ascend.
    pub(crate) fn last_prompt(&self) -> &str {
        self.ours.last().unwrap()
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

    /// Plays it to the death of its server; another one has the same messages and does nothing.
    pub(crate) fn play_server_death(&self) -> (Played, Vec<Event>) {
        let mut stage = self.stage_to_the_end();
        stage.server.rests();
        stage.reconnect();
        stage.finish();
        stage.judge()
    }

    fn stage_to_the_end(&self) -> Stage {
        let mut dead = self.clone();
        let last = dead.steps.iter().rposition(|(_, step)| matches!(step, Step::Event(..))).unwrap();
        dead.steps.truncate(last + 1);
        dead.run_until_last()
    }

    fn run_until_last(&self) -> Stage {
        self.run_inner(&Fault::None, Budget { steps: None, ..Budget::default() }, 0, 0, false)
    }

    /// Plays it with answers that take so long, from a server that is so many events ahead of its stream.
    pub(crate) fn play_slow(&self, fault: &Fault, rest: u64, ahead: usize) -> (Played, Vec<Event>) {
        self.run_slow(fault, Budget { steps: None, ..Budget::default() }, rest, ahead).judge()
    }

    fn run(&self, fault: &Fault, budget: Budget) -> Stage {
        self.run_slow(fault, budget, 0, 0)
    }

    fn run_slow(&self, fault: &Fault, budget: Budget, rest: u64, ahead: usize) -> Stage {
        self.run_inner(fault, budget, rest, ahead, true)
    }

    fn run_inner(&self, fault: &Fault, budget: Budget, rest: u64, ahead: usize, finish: bool) -> Stage {
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
            rest,
            pending: Vec::new(),
        };
        let all: Vec<&Value> = self
            .steps
            .iter()
            .filter_map(|(_, step)| match step {
                Step::Event(event, _) => Some(event),
                _ => None,
            })
            .collect();
        // The server cannot be ahead of what a client has not done yet.
        let mut bounds = Vec::new();
        for (_, step) in &self.steps {
            match step {
                Step::Event(..) => bounds.push(None),
                Step::Prompt { .. } | Step::Abort => {
                    let so_far = bounds.len();
                    bounds.iter_mut().filter(|bound| bound.is_none()).for_each(|bound| *bound = Some(so_far));
                }
            }
        }
        let mut shown = 0;
        let mut kept: Vec<Arc<AgentEvent>> = Vec::new();
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
                    let _ = event;
                    let bound = bounds[number].unwrap_or(all.len()).max(number + 1);
                    while shown < bound && shown <= number + ahead {
                        stage.server.sends(all[shown]);
                        shown += 1;
                    }
                    let index = number;
                    number += 1;
                    match fault {
                        // Too slow: what is left out happened before the mark is read, and states are kept behind it.
                        Fault::Lag(from, to) if (*from..*to).contains(&index) => {
                            if parsed.is_control() {
                                kept.push(parsed.clone());
                            }
                            continue;
                        }
                        Fault::Lag(_, to) if *to == index => {
                            stage.reconnect();
                            for event in std::mem::take(&mut kept) {
                                stage.deliver(&event);
                            }
                        }
                        Fault::Drop(dropped) if dropped.contains(&index) => continue,
                        Fault::Cut(from, to) | Fault::Crash(from, to) if (*from..*to).contains(&index) => {
                            stage.dead = matches!(fault, Fault::Crash(..));
                            continue;
                        }
                        Fault::Delay(late) if late.contains(&index) => {
                            delayed.push(parsed.clone());
                            continue;
                        }
                        Fault::Late(late, _) if *late == index => {
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
                    if matches!(fault, Fault::Late(_, after) if *after == index) {
                        std::mem::take(&mut delayed).iter().for_each(|late| stage.deliver(late));
                    }
                }
                // Whoever would have sent it is dead, so it was not sent; nor was what it caused.
                Step::Prompt { .. } | Step::Abort if stage.dead || !kept.is_empty() => {
                    stage.unplayable = true
                }
                Step::Prompt { message, text } => {
                    if !matches!(fault, Fault::None) && self.ours.contains(message) {
                        stage.wait_for_end();
                    }
                    stage.prompt(message, text);
                    if matches!(fault, Fault::Delay(_)) {
                        std::mem::take(&mut delayed).iter().for_each(|late| stage.deliver(late));
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
            Fault::Lag(_, to) if *to >= number => {
                stage.reconnect();
                for event in std::mem::take(&mut kept) {
                    stage.deliver(&event);
                }
            }
            Fault::Crash(_, to) if *to >= number => stage.take_up(),
            _ => {}
        }
        if finish {
            stage.finish();
        }
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
    /// How long the server takes to answer a question, and the answers that are on their way.
    rest: u64,
    pending: Vec<(u64, Answer)>,
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
        self.pending.clear();
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
            let arrives = self.pending.iter().map(|(at, _)| *at).min();
            let due = [self.solo.deadline().map(|due| due.0), arrives].into_iter().flatten().min();
            let Some(due) = due.filter(|_| self.solo.is_busy()) else { break };
            self.advance(due);
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
                Call::Prompt { message, .. } => Answer::Prompt(message, PromptAnswer::Accepted),
                Call::Message { message, .. } => Answer::Message(self.server.message(&message).map(Box::new)),
                Call::Shelf { children } => {
                    Answer::Shelf(Ok(Box::new(self.server.shelf(&self.session, &children))))
                }
                Call::Abort => {
                    self.aborts += 1;
                    Answer::Abort
                }
                Call::Reply { .. } | Call::Answer { .. } | Call::Refuse(_) | Call::Adopt(_) => continue,
            };
            if self.rest > 0 && !matches!(answer, Answer::Prompt(..)) {
                self.pending.push((self.now + self.rest, answer));
                continue;
            }
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
            let due = self.solo.deadline().map(|due| due.0).filter(|due| *due <= to);
            let arrives = self.pending.iter().map(|(at, _)| *at).min().filter(|at| *at <= to);
            match (due, arrives) {
                (None, None) => break,
                (due, Some(at)) if due.is_none_or(|due| at <= due) => {
                    let place = self.pending.iter().position(|(arrives, _)| *arrives == at).unwrap();
                    let (_, answer) = self.pending.remove(place);
                    self.now = self.now.max(at);
                    self.solo.answer(answer, Time(self.now));
                }
                (Some(due), _) => {
                    self.now = self.now.max(due);
                    self.solo.tick(Time(self.now));
                }
                (None, Some(_)) => unreachable!(),
            }
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
