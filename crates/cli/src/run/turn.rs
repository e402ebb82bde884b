//! The turn that a prompt becomes: followed to its end, answered, cancelled.

use super::RunError;
use super::ask::{Ask, Typed, Who, keyboard};
use crate::client::{Client, ClientError, Events, Received, segment};
use crate::escape;
use crate::show::{Asides, Prompts, Screen, Show, Style};
use crate::signals::Signals;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How often the status line is drawn anew.
const TICK: Duration = Duration::from_secs(1);

const FAILED: u8 = 1;
const LOST: u8 = 3;
const CANCELLED: u8 = 130;

/// One turn, and what is shown of it.
pub(super) struct Turn<'a> {
    client: &'a Client,
    session: String,
    prompt: String,
    /// Known once the agent has taken the prompt.
    turn: Option<String>,
    who: Who,
    json: bool,
    asks: VecDeque<Ask>,
    typed: Option<mpsc::Receiver<String>>,
    screen: Screen,
    show: Show,
    begun: Instant,
    cancelled: bool,
}

impl<'a> Turn<'a> {
    pub(super) fn new(client: &'a Client, session: String, prompt: String, who: Who, json: bool) -> Self {
        Self {
            client,
            session,
            prompt,
            turn: None,
            who,
            json,
            asks: VecDeque::new(),
            typed: None,
            screen: Screen::new(Asides::Apart),
            show: Show::new(Prompts::Hidden),
            begun: Instant::now(),
            cancelled: false,
        }
    }

    /// Shows everything until the turn has ended, and returns the exit code for how it did.
    pub(super) async fn follow(
        mut self,
        mut events: Events,
        mut signals: Signals,
    ) -> Result<ExitCode, RunError> {
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                biased;
                _ = signals.next() => {
                    if std::mem::replace(&mut self.cancelled, true) {
                        self.screen.end_line()?;
                        return Ok(ExitCode::from(CANCELLED));
                    }
                    self.cancel().await?;
                }
                received = events.next() => match received {
                    Ok(Received::Outcome(outcome)) => self.outcome(&outcome)?,
                    Ok(Received::Event { line, event }) => {
                        if let Some(code) = self.event(&line, &event).await? {
                            return Ok(ExitCode::from(code));
                        }
                    }
                    Err(error) => {
                        self.tell(&error)?;
                        return Ok(ExitCode::from(LOST));
                    }
                },
                line = typed(&mut self.typed) => self.answer(line).await?,
                _ = tick.tick() => self.status()?,
            }
        }
    }

    fn outcome(&mut self, outcome: &Value) -> io::Result<()> {
        if outcome["outcome"] == "reset" {
            let reason = outcome["reason"].as_str().unwrap_or_default();
            let told = format!("the log is not the one it was ({reason}): it is shown from its beginning");
            self.screen.line(Style::Warning, &told)?;
        }
        Ok(())
    }

    /// Shows one event. Returns the exit code when it ends what this command waits for.
    async fn event(&mut self, line: &str, event: &Value) -> Result<Option<u8>, RunError> {
        let was_known = self.turn.is_some();
        let ours = self.is_ours(event);
        if self.cancelled && !was_known && self.turn.is_some() {
            self.cancel_turn().await?;
        }
        if self.json {
            writeln!(io::stdout(), "{}", escape::json(line))?;
        } else if ours {
            self.show.event(event, &mut self.screen)?;
        }
        if !ours {
            return Ok(None);
        }
        match event["type"].as_str().unwrap_or_default() {
            "approval.requested" => {
                let about = self.show.asked(event);
                self.asked(Ask::approval(event, about)).await?;
            }
            "question.asked" => self.asked(Ask::question(event)).await?,
            "approval.resolved" => self.settled(event["approval"].as_str())?,
            "question.answered" => self.settled(event["question"].as_str())?,
            "prompt.withdrawn" if event["prompt"] == self.prompt.as_str() => {
                self.say(Style::Warning, "the prompt was withdrawn before the agent had it")?;
                return Ok(Some(CANCELLED));
            }
            "turn.ended" => return Ok(Some(code(event))),
            "session.ended" => return Ok(Some(FAILED)),
            _ => {}
        }
        Ok(None)
    }

    /// Whether an event is about the turn that has our prompt, or about no turn.
    fn is_ours(&mut self, event: &Value) -> bool {
        let takes = match event["type"].as_str().unwrap_or_default() {
            "turn.started" => {
                let prompts = event["prompts"].as_array().into_iter().flatten();
                prompts.into_iter().any(|prompt| *prompt == self.prompt.as_str())
            }
            "prompt.taken" => event["prompt"] == self.prompt.as_str(),
            _ => false,
        };
        let turn = event["turn"].as_str();
        if takes {
            self.turn = turn.map(str::to_owned);
        }
        turn.is_none() || turn == self.turn.as_deref()
    }

    /// The agent waits for somebody.
    async fn asked(&mut self, ask: Ask) -> Result<(), RunError> {
        match self.who {
            Who::Person => {
                self.asks.push_back(ask);
                self.typed.get_or_insert_with(keyboard);
                if self.asks.len() == 1 {
                    self.ask()?;
                }
            }
            Who::Others => self.say(Style::Faint, "(waits until a client of the gateway answers)")?,
            // What the permissions settle is settled by the gateway, before or after this.
            Who::Nobody if matches!(ask, Ask::Approval { .. }) => {}
            Who::Nobody => {
                let (path, body) = ask.refusal();
                self.reply(&path, &body).await?;
            }
        }
        Ok(())
    }

    fn ask(&mut self) -> io::Result<()> {
        match self.asks.front() {
            Some(ask) => self.screen.ask(&ask.words()),
            None => Ok(()),
        }
    }

    /// A person typed a line, or closed the keyboard.
    async fn answer(&mut self, line: Option<String>) -> Result<(), RunError> {
        let Some(line) = line else {
            self.typed = None;
            self.who = Who::Others;
            self.asks.clear();
            return Ok(
                self.say(Style::Faint, "(nobody can type here: it waits until another client answers)")?
            );
        };
        self.screen.entered();
        let Some(ask) = self.asks.front_mut() else { return Ok(()) };
        if let Typed::Answer(path, body) = ask.typed(&line) {
            self.asks.pop_front();
            self.reply(&path, &body).await?;
        }
        Ok(self.ask()?)
    }

    /// Somebody answered, perhaps not here.
    fn settled(&mut self, id: Option<&str>) -> io::Result<()> {
        let asked = self.asks.front().map(|ask| ask.id().to_owned());
        self.asks.retain(|ask| Some(ask.id()) != id);
        if asked.as_deref() == id { self.ask() } else { Ok(()) }
    }

    async fn reply(&mut self, path: &str, body: &Value) -> Result<(), RunError> {
        let path = format!("/v1/sessions/{}/{path}", segment(&self.session));
        match self.client.post(&path, body).await {
            Ok(_) => Ok(()),
            // Another client was first: its answer comes as an event.
            Err(error) if matches!(error.kind(), Some("approval-settled" | "question-settled")) => Ok(()),
            Err(error) => Ok(self.tell(&error)?),
        }
    }

    /// Takes the prompt out of the queue if it still waits there, or cancels the turn. One that is just about to begin is
    /// cancelled when it has.
    async fn cancel(&mut self) -> Result<(), RunError> {
        self.say(Style::Warning, "cancelling; once more leaves at once")?;
        if self.turn.is_some() {
            return self.cancel_turn().await;
        }
        let waiting = format!("/v1/sessions/{}/prompts/{}", segment(&self.session), segment(&self.prompt));
        match self.client.delete(&waiting).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == Some("prompt-not-waiting") => Ok(()),
            Err(error) => Ok(self.tell(&error)?),
        }
    }

    async fn cancel_turn(&mut self) -> Result<(), RunError> {
        let path = format!("/v1/sessions/{}/cancel", segment(&self.session));
        match self.client.post(&path, &json!({"turn": self.turn})).await {
            Ok(_) => Ok(()),
            // It has just ended: that comes as an event.
            Err(error) if error.kind() == Some("turn-not-open") => Ok(()),
            Err(error) => Ok(self.tell(&error)?),
        }
    }

    fn status(&mut self) -> io::Result<()> {
        if self.json || !self.asks.is_empty() {
            return Ok(());
        }
        let what = match (&self.turn, self.show.activity()) {
            (None, _) => "waiting for the agent",
            (Some(_), Some(tool)) => tool,
            (Some(_), None) => "working",
        };
        let line = format!("{what} \u{b7} {} s \u{b7} Ctrl-C cancels", self.begun.elapsed().as_secs());
        self.screen.status(&line)
    }

    fn tell(&mut self, error: &ClientError) -> io::Result<()> {
        self.say(Style::Warning, &format!("turnstream: {}", escape::preview(&error.to_string(), usize::MAX)))
    }

    fn say(&mut self, style: Style, line: &str) -> io::Result<()> {
        self.screen.line(style, line)
    }
}

/// The next line a person typed; never, while nobody is asked to.
async fn typed(lines: &mut Option<mpsc::Receiver<String>>) -> Option<String> {
    match lines {
        Some(lines) => lines.recv().await,
        None => std::future::pending().await,
    }
}

/// The exit code of a turn that has ended.
fn code(event: &Value) -> u8 {
    match event["outcome"].as_str() {
        Some("completed") => 0,
        Some("cancelled") => CANCELLED,
        Some("lost") => LOST,
        _ => FAILED,
    }
}
