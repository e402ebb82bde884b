//! A turn as a client sees it. Every message has to be the protocol's, and exactly one ends the turn.

use crate::judge::Judge;
use crate::screen::{Call, Message, Screen};
use crate::support::SOON;
use serde_json::Value;
use turnstream_dialects::acp::{AcpEvent, End, Fault};
use turnstream_opencode_client::Turn;

/// A turn that is being watched.
pub(crate) struct Watch {
    pub(crate) turn: Turn,
    seen: Seen,
}

/// What was seen of a turn.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) events: Vec<AcpEvent>,
    screen: Screen,
}

impl Watch {
    pub(crate) fn new(turn: Turn) -> Self {
        Self { turn, seen: Seen::default() }
    }

    /// The next event; nothing after the terminator.
    pub(crate) async fn next(&mut self) -> Option<&AcpEvent> {
        let event = tokio::time::timeout(SOON, self.turn.next()).await;
        let event = event.unwrap_or_else(|_| panic!("nothing comes after {:#?}", self.seen.events))?;
        let message = Judge::get().check(&event);
        if event != AcpEvent::KeepAlive {
            self.seen.screen.show(&serde_json::from_str(&message).unwrap());
        }
        self.seen.events.push(event);
        self.seen.events.last()
    }

    /// Up to the first event that is this.
    pub(crate) async fn until(&mut self, is_it: impl Fn(&AcpEvent) -> bool) -> &AcpEvent {
        loop {
            match self.next().await {
                Some(event) if is_it(event) => break,
                Some(_) => {}
                None => panic!("the turn ended before that: {:#?}", self.seen.events),
            }
        }
        self.seen.events.last().unwrap()
    }

    /// Up to the first text of the model's own.
    pub(crate) async fn until_text(&mut self) {
        self.until(|event| matches!(event, AcpEvent::Chunk(chunk) if !chunk.text.is_empty())).await;
    }

    /// All of it. After the terminator comes nothing.
    pub(crate) async fn ended(mut self) -> Seen {
        while self.next().await.is_some() {}
        let ends = self.seen.events.iter().filter(|event| event.is_terminator()).count();
        assert_eq!(ends, 1, "{:#?}", self.seen.events);
        assert!(self.seen.events.last().unwrap().is_terminator());
        self.seen
    }
}

impl Seen {
    /// What the agent itself said, without what is void.
    pub(crate) fn text(&self) -> String {
        self.texts("agent_message_chunk", None).concat()
    }

    /// What it thought.
    pub(crate) fn thoughts(&self) -> String {
        self.texts("agent_thought_chunk", None).concat()
    }

    /// What the subagent of this call said.
    pub(crate) fn text_of(&self, call: &str) -> String {
        self.texts("agent_message_chunk", Some(call)).concat()
    }

    fn texts(&self, kind: &str, parent: Option<&str>) -> Vec<String> {
        let mut shown: Vec<(&String, &Message)> = self.screen.messages.iter().collect();
        shown.sort_by_key(|(id, _)| place(id));
        let is_it = |message: &Message| message.kind == kind && message.parent.as_str() == parent;
        shown.into_iter().filter(|(_, shown)| is_it(shown)).map(|(_, shown)| shown.text.clone()).collect()
    }

    /// Its tool calls in their order, those of subagents left out.
    pub(crate) fn calls(&self) -> Vec<(&String, &Call)> {
        self.calls_below(None)
    }

    /// The calls of a subagent.
    pub(crate) fn calls_below(&self, parent: Option<&str>) -> Vec<(&String, &Call)> {
        let mut calls: Vec<(&String, &Call)> =
            self.screen.calls.iter().filter(|(_, call)| call.parent.as_str() == parent).collect();
        calls.sort_by_key(|(id, _)| place(id));
        calls
    }

    /// Kind, title and status of its calls.
    pub(crate) fn call_lines(&self) -> Vec<String> {
        let word = |call: &Call, name: &str| call.members[name].as_str().unwrap().to_owned();
        let line = |call: &Call| [word(call, "kind"), word(call, "title"), word(call, "status")].join(" | ");
        self.calls().iter().map(|(_, call)| line(call)).collect()
    }

    /// Asks without an answer.
    pub(crate) fn open_asks(&self) -> usize {
        self.screen.asked.len()
    }

    /// The codes of its notices.
    pub(crate) fn notices(&self) -> Vec<&str> {
        self.events
            .iter()
            .filter_map(|event| match event {
                AcpEvent::Notice(notice) => Some(notice.code.as_str()),
                _ => None,
            })
            .collect()
    }

    /// How it ended, in a word or with its error.
    pub(crate) fn end(&self) -> String {
        match self.events.last().unwrap() {
            AcpEvent::End(end) => {
                serde_json::to_value(end.response.stop_reason).unwrap().as_str().unwrap().to_owned()
            }
            AcpEvent::Error(fault) => format!("{} {}: {}", fault.code, fault.class.as_str(), fault.message),
            other => panic!("{other:?}"),
        }
    }

    /// Its answer, if it ended with a stop reason.
    #[track_caller]
    pub(crate) fn answer(&self) -> &End {
        match self.events.last().unwrap() {
            AcpEvent::End(end) => end,
            other => panic!("{other:?}"),
        }
    }

    /// Its error, if it ended with one.
    #[track_caller]
    pub(crate) fn fault(&self) -> &Fault {
        match self.events.last().unwrap() {
            AcpEvent::Error(fault) => fault,
            other => panic!("{other:?}"),
        }
    }

    /// What the terminator tells beyond ACP.
    pub(crate) fn ours(&self) -> Value {
        let meta = self.answer().response.meta.clone().unwrap_or_default();
        meta.get("turnstream").cloned().unwrap_or_default()
    }

    /// What matters of a turn, to compare it with another.
    pub(crate) fn whole(&self) -> (String, String, Vec<String>, String) {
        (self.thoughts(), self.text(), self.call_lines(), self.end())
    }
}

/// Ids count: `i2` comes before `i10`.
fn place(id: &str) -> u64 {
    id[1..].parse().unwrap()
}
