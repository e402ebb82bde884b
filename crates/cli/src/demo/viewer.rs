//! The client that looks on: it follows the session over the cable, shows what it receives, and keeps it.

use super::{DemoError, Sabotage};
use crate::client::{Client, Events, Received};
use crate::escape::{Safe, Untrusted, safe};
use crate::out;
use crate::record::Record;
use crate::show::{Screen, Style};
use serde_json::Value;
use std::collections::HashMap;
use std::io;
use std::time::Duration;
use tokio::time::timeout;
use turnstream_model::time::Time;

/// Columns of the word in front of a line.
const WORD: usize = 10;
/// How often the seconds of a wait are drawn.
const TICK: Duration = Duration::from_millis(250);

/// A client of one session.
pub(super) struct Viewer<'a> {
    client: Client,
    session: String,
    events: Events,
    screen: &'a mut Screen,
    is_live: bool,
    generation: String,
    /// Every event in the order in which it came.
    pub(super) received: Vec<Value>,
    /// The texts of messages that have not ended, by item.
    texts: HashMap<String, String>,
    /// The message whose line is open on the terminal.
    open_line: Option<String>,
    titles: HashMap<String, String>,
    /// The end of a wait, in Unix milliseconds.
    waits_until: Option<u64>,
    sabotage: Option<Sabotage>,
}

/// What the viewer saw next.
pub(super) enum Seen {
    /// An event, which is the last one of `received`.
    Event,
    /// The connection is gone.
    Away,
    /// It is back, and the gateway said what happened to the cursor.
    Back(Value),
}

impl<'a> Viewer<'a> {
    /// Follows a session from its first event.
    pub(super) fn new(
        client: Client,
        session: &str,
        screen: &'a mut Screen,
        sabotage: Option<Sabotage>,
    ) -> Self {
        let events = client.events(session, "0");
        Self {
            client,
            session: session.to_owned(),
            events,
            screen,
            is_live: out::is_terminal(),
            generation: String::new(),
            received: Vec::new(),
            texts: HashMap::new(),
            open_line: None,
            titles: HashMap::new(),
            waits_until: None,
            sabotage,
        }
    }

    /// Shows a heading.
    pub(super) fn heading(&mut self, number: usize, text: &'static str) -> io::Result<()> {
        self.screen.line(Style::Plain, &safe![""])?;
        self.screen.line(Style::Strong, &safe![number, "  ", text])
    }

    /// Shows something that the demo did.
    pub(super) fn broken(&mut self, text: &Safe) -> io::Result<()> {
        self.line(Style::Warning, "demo", text)
    }

    /// Shows something that the client noticed.
    pub(super) fn client_line(&mut self, text: &Safe) -> io::Result<()> {
        self.line(Style::Good, "client", text)
    }

    fn line(&mut self, style: Style, word: &'static str, text: &Safe) -> io::Result<()> {
        self.open_line = None;
        self.screen.line(style, &safe!["   ", safe![word].padded(WORD), text])
    }

    /// The sequence number of the last event.
    pub(super) fn last(&self) -> u64 {
        self.received.iter().filter_map(|event| event["seq"].as_u64()).max().unwrap_or(0)
    }

    /// Shows events until an open message has so many bytes, or the turn is over.
    pub(super) async fn until_text(&mut self, bytes: usize, turn: usize) -> Result<(), DemoError> {
        while !self.texts.values().any(|text| text.len() >= bytes) && !self.is_over(turn) {
            self.next().await?;
        }
        Ok(())
    }

    /// Shows events until so many turns are over.
    pub(super) async fn until_over(&mut self, turns: usize) -> Result<(), DemoError> {
        while !self.is_over(turns) {
            self.next().await?;
        }
        Ok(())
    }

    /// Whether so many turns have ended, and the agent has no work. The status is the last event of a turn.
    fn is_over(&self, turns: usize) -> bool {
        let is_end = |event: &&Value| Record(event).is("type", "turn.ended");
        let last = self.received.iter().map(Record).rfind(|event| event.is("type", "session.status"));
        self.received.iter().filter(is_end).count() >= turns
            && last.is_some_and(|last| last.is("status", "idle"))
    }

    /// Shows events until the connection is back after a break.
    pub(super) async fn until_back(&mut self) -> Result<Value, DemoError> {
        loop {
            match self.next().await? {
                Seen::Back(outcome) => return Ok(outcome),
                Seen::Event | Seen::Away => {}
            }
        }
    }

    /// Waits for the next thing, and shows it.
    async fn next(&mut self) -> Result<Seen, DemoError> {
        loop {
            self.draw_wait()?;
            let Ok(received) = timeout(TICK, self.events.next()).await else { continue };
            match received {
                Ok(Received::Event { event, .. }) => {
                    self.keep(&event);
                    self.show(Record(&event))?;
                    return Ok(Seen::Event);
                }
                Ok(Received::Outcome(outcome)) => {
                    let is_first = self.generation.is_empty();
                    self.generation = Record(&outcome).text("generation").exact().to_owned();
                    if !is_first {
                        return Ok(Seen::Back(outcome));
                    }
                }
                Ok(Received::Away(error)) => {
                    let error = error.to_string();
                    let problem = error.split(": ").nth(1).unwrap_or(&error);
                    let problem = problem.split(';').next().unwrap_or(problem);
                    self.line(Style::Faint, "client", &safe!["away: ", Untrusted(problem)])?;
                    return Ok(Seen::Away);
                }
                // A gateway that starts slowly: the client goes on from the last event.
                Err(error) if error.may_pass() => {
                    let after = format!("{}:{}", self.generation, self.last());
                    self.events = self.client.events(&self.session, &after);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Keeps an event, as often as it came.
    fn keep(&mut self, event: &Value) {
        let is_target = Record(event).is("type", "item.delta");
        match self.sabotage.filter(|_| is_target) {
            Some(Sabotage::Lose) => {
                self.sabotage = None;
                return;
            }
            Some(Sabotage::Repeat) => {
                self.sabotage = None;
                self.received.push(event.clone());
            }
            Some(Sabotage::Tool) | None => {}
        }
        self.received.push(event.clone());
    }

    fn show(&mut self, event: Record<'_>) -> io::Result<()> {
        let item = event.text("item").exact().to_owned();
        match event.text("type").exact() {
            "prompt.accepted" => {
                let text = event.list("content").map(|block| block.text("text").line()).collect();
                self.line(Style::Plain, "you", &text)
            }
            "item.started" if event.is("kind", "message") => {
                self.texts.insert(item, String::new());
                Ok(())
            }
            "item.started" | "item.updated" => self.tool(&item, event.member("tool")),
            "item.delta" => self.text(&item, event.text("text")),
            "item.ended" => self.message_ended(&item, Style::Plain),
            "attempt.superseded" => {
                for item in event.list("items").filter_map(Record::as_text) {
                    self.message_ended(item.exact(), Style::Faint)?;
                }
                let is_void = event.list("items").next().is_some();
                let void = if is_void { "that answer is void: " } else { "" };
                self.line(Style::Faint, "gateway", &safe![void, "the model is asked again"])
            }
            "session.status" => self.status(event),
            "turn.ended" => {
                let text = safe![event.text("turn"), " ended: ", event.text("outcome")];
                self.line(Style::Good, "turn", &text)
            }
            // A client that wants to show more reads more.
            _ => Ok(()),
        }
    }

    /// A text that grows. On a terminal it is shown at once.
    fn text(&mut self, item: &str, delta: Untrusted<'_>) -> io::Result<()> {
        let Some(text) = self.texts.get_mut(item) else { return Ok(()) };
        let is_first = text.is_empty();
        text.push_str(delta.exact());
        if !self.is_live {
            return Ok(());
        }
        if self.open_line.as_deref() != Some(item) {
            self.screen.end_line()?;
            let beginning = if is_first { "   agent     " } else { "   agent     \u{2026}" };
            self.screen.answer(Untrusted(beginning))?;
            self.open_line = Some(item.to_owned());
        }
        self.screen.answer(delta)
    }

    /// The end of a message. In a file it is shown now.
    fn message_ended(&mut self, item: &str, style: Style) -> io::Result<()> {
        match self.texts.remove(item) {
            Some(text) if !self.is_live && !text.is_empty() => {
                self.line(style, "agent", &Untrusted(&text).line())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn tool(&mut self, item: &str, tool: Record<'_>) -> io::Result<()> {
        if let Some(title) = tool.some_text("title") {
            self.titles.insert(item.to_owned(), title.exact().to_owned());
        }
        let title = self.titles.get(item).cloned().unwrap_or_default();
        match tool.text("status").exact() {
            word @ ("completed" | "failed") => {
                let style = if word == "completed" { Style::Plain } else { Style::Warning };
                self.line(style, "tool", &safe![Untrusted(&title), ": ", tool.text("status")])
            }
            _ => Ok(()),
        }
    }

    fn status(&mut self, event: Record<'_>) -> io::Result<()> {
        self.waits_until = None;
        if !event.is("status", "retrying") {
            return Ok(());
        }
        let reason = event.text_or("reason", "no reason").spaced();
        self.waits_until = event.number("until");
        let wait = match self.waits_until.map(seconds_until) {
            Some(seconds @ 1..) => safe![", waits ", seconds, " s"],
            Some(0) | None => Safe::default(),
        };
        self.line(Style::Faint, "gateway", &safe!["retrying: ", reason, wait])
    }

    fn draw_wait(&mut self) -> io::Result<()> {
        match self.waits_until.map(seconds_until) {
            Some(seconds @ 1..) => {
                self.screen.status(&safe!["             ", seconds, " s until the limit expires"])
            }
            Some(0) | None => Ok(()),
        }
    }
}

/// Whole seconds until a time, rounded up.
fn seconds_until(time: u64) -> u64 {
    time.saturating_sub(Time::now().0).div_ceil(1_000)
}
