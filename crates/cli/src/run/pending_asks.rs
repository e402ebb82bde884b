//! The open asks of the agent, and who answers them: the person at this terminal, other clients, or nobody.

use super::RunError;
use super::ask::{Ask, Extent, Typed};
use super::keyboard::Keyboard;
use crate::client::{Client, ClientError, segment};
use crate::escape::{Untrusted, safe};
use crate::follow_up::FollowUp;
use crate::show::{Screen, Style};
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

/// Who answers asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answerer {
    /// The person at this terminal.
    Person,
    /// Other clients of the gateway.
    Others,
    /// Nobody: asks that the permissions do not settle are refused.
    Nobody,
}

/// The open asks, oldest first.
pub(super) struct PendingAsks {
    client: Client,
    session: String,
    answerer: Answerer,
    follow_up: Rc<FollowUp>,
    asks: VecDeque<Ask>,
    keyboard: Option<Keyboard>,
}

impl PendingAsks {
    pub(super) fn new(client: &Client, session: &str, answerer: Answerer, follow_up: Rc<FollowUp>) -> Self {
        let (client, session) = (client.clone(), session.to_owned());
        Self { client, session, answerer, follow_up, asks: VecDeque::new(), keyboard: None }
    }

    /// Whether the person is being asked.
    pub(super) fn is_asking(&self) -> bool {
        !self.asks.is_empty()
    }

    /// Waits for the next typed line. Waits for ever while nobody is asked.
    pub(super) async fn line(&mut self) -> Option<String> {
        match &mut self.keyboard {
            Some(keyboard) if !self.asks.is_empty() => keyboard.line().await,
            _ => std::future::pending().await,
        }
    }

    /// Handles a new ask.
    pub(super) async fn asked(&mut self, ask: Ask, screen: &mut Screen) -> Result<(), RunError> {
        match self.answerer {
            Answerer::Person => {
                if self.keyboard.is_none() {
                    self.keyboard = Some(Keyboard::new().map_err(RunError::Keyboard)?);
                }
                self.asks.push_back(ask);
                if self.asks.len() == 1 {
                    self.show(Extent::Folded, screen)?;
                }
                Ok(())
            }
            Answerer::Others => {
                for line in ask.lines(Extent::Whole, screen.width()) {
                    screen.line(Style::Plain, &line)?;
                }
                let told = safe!["(waits for an answer; to give one: ", self.follow_up.attach(), ")"];
                Ok(screen.line(Style::Faint, &told)?)
            }
            Answerer::Nobody => {
                for line in ask.lines(Extent::Whole, screen.width()) {
                    screen.line(Style::Plain, &line)?;
                }
                let (path, body) = ask.refusal();
                self.reply(&path, &body, screen).await.map(drop)
            }
        }
    }

    /// Shows the first ask. Input that was typed before is discarded.
    fn show(&mut self, extent: Extent, screen: &mut Screen) -> io::Result<()> {
        let Some(ask) = self.asks.front() else { return Ok(()) };
        let width = screen.width();
        for line in ask.lines(extent, width) {
            screen.line(Style::Plain, &line)?;
        }
        let prompt = ask.prompt(width);
        // Input that cannot be discarded could be taken for an answer.
        match self.keyboard.as_mut().map(Keyboard::forget) {
            Some(Ok(())) => screen.ask(&prompt),
            Some(Err(_)) | None => self.leave_to_others(screen),
        }
    }

    /// Nobody can type here any more: other clients must answer.
    fn leave_to_others(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.keyboard = None;
        self.answerer = Answerer::Others;
        self.asks.clear();
        let told = safe!["(nobody can type here: it waits until another client answers)"];
        screen.line(Style::Faint, &told)
    }

    /// Handles a typed line; `None` when standard input was closed.
    pub(super) async fn typed(&mut self, line: Option<String>, screen: &mut Screen) -> Result<(), RunError> {
        let Some(line) = line else { return Ok(self.leave_to_others(screen)?) };
        screen.entered();
        let Some(ask) = self.asks.front_mut() else { return Ok(()) };
        let mut extent = Extent::Folded;
        match ask.typed(&line) {
            Typed::Answer(path, body) => {
                // An answer that did not arrive is asked for again.
                if self.reply(&path, &body, screen).await? == Arrived::Yes {
                    self.asks.pop_front();
                }
            }
            Typed::Again(how) => extent = how,
        }
        Ok(self.show(extent, screen)?)
    }

    /// Removes an ask that was answered, here or elsewhere.
    pub(super) fn settled(&mut self, id: Untrusted<'_>, screen: &mut Screen) -> io::Result<()> {
        let was_shown = self.asks.front().is_some_and(|ask| ask.id() == id.exact());
        self.asks.retain(|ask| ask.id() != id.exact());
        if was_shown { self.show(Extent::Folded, screen) } else { Ok(()) }
    }

    async fn reply(&mut self, path: &str, body: &Value, screen: &mut Screen) -> Result<Arrived, RunError> {
        let path = format!("/v1/sessions/{}/{path}", segment(&self.session));
        match self.client.post(&path, body).await {
            Ok(_) => Ok(Arrived::Yes),
            // Another client was first: its answer comes as an event.
            Err(error) if matches!(error.kind(), Some("approval-settled" | "question-settled")) => {
                Ok(Arrived::Yes)
            }
            Err(error) => {
                tell(&error, screen)?;
                Ok(if error.may_pass() { Arrived::No } else { Arrived::Yes })
            }
        }
    }
}

/// Whether an answer arrived at the gateway. Otherwise it can be given again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrived {
    Yes,
    No,
}

/// Shows the error of a request.
pub(super) fn tell(error: &ClientError, screen: &mut Screen) -> io::Result<()> {
    screen.line(Style::Warning, &safe!["turnstream: ", Untrusted(&error.to_string())])
}
