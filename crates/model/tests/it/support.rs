//! A session under test: a machine, the log it writes and the fold of that log.
#![allow(dead_code, unreachable_pub, reason = "shared by several test binaries")]

use serde_json::json;
use turnstream_model::check::{Checker, Report, Tail};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Body, Draft, Event, Field, ItemKind, ItemState, Role, Tool, ToolStatus};
use turnstream_model::fold::{Applied, Fold, Item};
use turnstream_model::id::{Counters, Key, PromptId, SessionId};
use turnstream_model::machine::{Machine, Step};
use turnstream_model::signal::{Finality, ItemSeen, Need, Signal};
use turnstream_model::time::Time;

pub struct Session {
    pub machine: Machine,
    pub ids: Counters,
    pub now: Time,
    pub log: Vec<Event>,
    pub needs: Vec<Need>,
    pub fold: Fold,
    /// How often the agent had to be told that its turn has reached a cap.
    pub stops: usize,
}

impl Session {
    pub fn new() -> Self {
        let mut session = Self {
            machine: Machine::new(),
            ids: Counters::default(),
            now: Time(1_794_700_000_000),
            log: Vec::new(),
            needs: Vec::new(),
            fold: Fold::new(),
            stops: 0,
        };
        session
            .step(|machine, step| {
                machine.create(
                    SessionId::from("ses_1"),
                    "scripted".into(),
                    "/srv/work".into(),
                    None,
                    None,
                    step,
                )
            })
            .unwrap();
        session
    }

    /// One step of the machine; what it drafts is appended and folded, as a keeper and a log would.
    pub fn step<T>(&mut self, act: impl FnOnce(&mut Machine, &mut Step<'_>) -> T) -> T {
        let mut drafts: Vec<Draft> = Vec::new();
        let mut step =
            Step { now: self.now, ids: &mut self.ids, drafts: &mut drafts, needs: &mut self.needs };
        let result = act(&mut self.machine, &mut step);
        self.stops += usize::from(self.machine.account(0, &mut step));
        for draft in drafts {
            let event = draft.at(Seq(self.log.len() as u64 + 1), self.now);
            assert_eq!(self.fold.apply(&event), Applied::Yes);
            self.log.push(event);
        }
        result
    }

    pub fn observe(&mut self, signal: Signal) {
        self.step(|machine, step| machine.observe(signal, step));
    }

    pub fn observe_all(&mut self, signals: impl IntoIterator<Item = Signal>) {
        for signal in signals {
            self.observe(signal);
        }
    }

    pub fn pass(&mut self, millis: u64) {
        self.now = self.now.plus_millis(millis);
        self.step(|machine, step| machine.tick(step));
    }

    /// Accepts a prompt and sends it under its own id.
    pub fn prompt(&mut self, text: &str) -> PromptId {
        let content = vec![json!({"type": "text", "text": text})];
        let prompt = self.step(|machine, step| machine.accept(None, content, step)).unwrap().prompt;
        let native_id = Some(format!("native-{prompt}"));
        self.step(|machine, step| machine.send(&prompt, native_id, step)).unwrap();
        prompt
    }

    pub fn check(&self, tail: Tail) -> Report {
        let mut checker = Checker::new();
        for event in &self.log {
            checker.line(&event.to_json());
        }
        checker.finish(tail)
    }

    pub fn assert_lawful(&self, tail: Tail) {
        let report = self.check(tail);
        assert!(report.violations.is_empty(), "{}\n{}", show(&report), self.show());
    }

    /// The log as lines, for messages of failed tests.
    pub fn show(&self) -> String {
        self.log.iter().map(|event| event.to_json() + "\n").collect()
    }

    pub fn types(&self) -> Vec<&str> {
        self.log.iter().map(|event| event.draft.body.type_name()).collect()
    }

    pub fn count(&self, r#type: &str) -> usize {
        self.types().iter().filter(|name| **name == r#type).count()
    }

    pub fn ends(&self) -> Vec<&Body> {
        let bodies = self.log.iter().map(|event| &event.draft.body);
        bodies.filter(|body| matches!(body, Body::TurnEnded { .. })).collect()
    }

    pub fn item(&self, native_id: &str) -> Option<&Item> {
        let items = &self.fold.state().items;
        items.iter().find(|item| item.native_id.as_deref() == Some(native_id))
    }

    pub fn text(&self, native_id: &str) -> &str {
        self.item(native_id).and_then(|item| item.text.as_deref()).unwrap_or("")
    }
}

pub fn show(report: &Report) -> String {
    report.violations.iter().map(|violation| format!("{violation}\n")).collect()
}

pub fn busy() -> Signal {
    Signal::TurnBegan { origin: None, prompts: Vec::new(), native_id: None }
}

pub fn idle() -> Signal {
    Signal::TurnIdle { stop_reason: None }
}

pub fn message(key: &str) -> Signal {
    seen(key, ItemKind::Message, Some(Role::Assistant), None)
}

pub fn seen(key: &str, kind: ItemKind, role: Option<Role>, parent: Option<&str>) -> Signal {
    Signal::ItemSeen(ItemSeen {
        key: Key::from(key),
        kind,
        role,
        parent: parent.map(Key::from),
        synthetic: false,
    })
}

pub fn delta(key: &str, text: &str) -> Signal {
    Signal::TextDelta { key: Key::from(key), field: Field::Text, text: text.to_owned() }
}

pub fn whole(key: &str, text: &str) -> Signal {
    let (key, text) = (Key::from(key), text.to_owned());
    Signal::TextSnapshot { key, field: Field::Text, text, finality: Finality::Final }
}

pub fn so_far(key: &str, text: &str) -> Signal {
    let (key, text) = (Key::from(key), text.to_owned());
    Signal::TextSnapshot { key, field: Field::Text, text, finality: Finality::SoFar }
}

pub fn done(key: &str) -> Signal {
    Signal::ItemEnded { key: Key::from(key), state: ItemState::Completed, reason: None }
}

pub fn tool(key: &str, status: ToolStatus) -> Signal {
    let tool = Tool { name: Some("bash".into()), status: Some(status), ..Tool::default() };
    Signal::ToolSeen { key: Key::from(key), parent: None, tool }
}

pub fn attempt(key: &str) -> Signal {
    Signal::AttemptBegan { key: Key::from(key), model: Some("m".into()) }
}

pub fn attempt_done(key: &str, finish: &str) -> Signal {
    Signal::AttemptEnded { key: Key::from(key), finish: Some(finish.into()), usage: None, cost: None }
}
