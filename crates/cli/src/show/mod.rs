//! Shows events to a person: the answer, and lines about tools, retries and the end.

mod call;
mod held_messages;
mod item;
mod screen;
mod usage;

pub(crate) use call::Call;
pub(crate) use screen::{Asides, Screen, Style};

use crate::client::ClientError;
use crate::escape::{Safe, Untrusted, safe};
use crate::moment;
use crate::record::Record;
use held_messages::HeldMessages;
use item::Item;
use std::collections::HashMap;
use std::io;
use turnstream_model::event::{Known, Shown};

/// The width of a preview of things that are not the answer.
const LINE: usize = 160;

/// Whether prompts are shown. The person who just typed one does not need it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prompts {
    Shown,
    Hidden,
}

/// How the agent's asks are handled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// They are shown here. A tool call can be announced before its ask.
    Shown,
    /// The code that answers them shows them.
    Answered,
    /// Permissions settle them: nobody is asked, so a tool call runs when it is announced.
    ByRule,
}

/// When the answer is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answers {
    /// As it comes. Text that becomes void is marked.
    Streamed,
    /// Each message when it is complete, and never void text.
    Whole,
}

/// Shows one session's events, one after the other.
pub(crate) struct Show {
    prompts: Prompts,
    asks: Asks,
    answers: Answers,
    items: HashMap<String, Item>,
    messages: HeldMessages,
    /// The tool call of each approval.
    approvals: HashMap<String, String>,
    /// The item whose text was written last.
    writing: Option<String>,
}

impl Show {
    pub(crate) fn new(prompts: Prompts, asks: Asks, answers: Answers) -> Self {
        Self {
            prompts,
            asks,
            answers,
            items: HashMap::new(),
            messages: HeldMessages::default(),
            approvals: HashMap::new(),
            writing: None,
        }
    }

    /// Changes how asks are handled.
    pub(crate) fn set_asks(&mut self, asks: Asks) {
        self.asks = asks;
    }

    /// Shows one event. Types that this version does not know are skipped.
    pub(crate) fn event(&mut self, event: Record<'_>, screen: &mut Screen) -> io::Result<()> {
        let text = |member: &str| event.text(member);
        let Some(shown) = event.shown_type() else { return aside(event, screen) };
        match shown {
            Shown::PromptAccepted if self.prompts == Prompts::Shown => {
                let said: Vec<&str> = event
                    .list("content")
                    .filter_map(|block| Some(block.some_text("text")?.exact()))
                    .collect();
                screen.line(Style::Strong, &safe!["> ", Untrusted(&said.join(" ")).preview(LINE)])
            }
            Shown::ItemStarted => self.started(event, screen),
            Shown::ItemDelta => self.grown(event, screen),
            Shown::ItemReplaced => self.replaced(event, screen),
            Shown::ItemUpdated => self.updated(event, screen),
            Shown::ItemEnded => self.ended(event, screen),
            Shown::ItemRevised => self.revised(event, screen),
            Shown::ItemRemoved => self.removed(event, screen),
            Shown::AttemptStarted => {
                self.messages.attempt_started(text("attempt").exact(), event.number("step"));
                self.release(screen)
            }
            Shown::AttemptEnded => {
                self.messages.attempt_ended(text("attempt").exact(), event.some_text("finish"));
                self.release(screen)
            }
            Shown::AttemptSuperseded => self.superseded(event, screen),
            Shown::ApprovalRequested => self.asked(event, screen),
            Shown::ApprovalResolved => self.resolved(event, screen),
            Shown::QuestionAsked if self.asks == Asks::Shown => {
                for question in event.list("questions") {
                    let asked = question.text("text").preview(LINE);
                    let line = safe!["[question] ", asked, " (", text("question"), ")"];
                    screen.line(Style::Strong, &line)?;
                }
                Ok(())
            }
            Shown::QuestionAnswered => {
                screen.line(Style::Faint, &safe!["[", text("outcome"), "] (", text("question"), ")"])
            }
            Shown::SessionStatus if event.is("status", "retrying") => {
                screen.line(Style::Warning, &retrying(event))
            }
            Shown::Notice => {
                screen.line(Style::Warning, &safe![text("code"), ": ", text("message").preview(LINE)])
            }
            Shown::TurnEnded => {
                self.writing = None;
                self.messages.turn_ended();
                self.release(screen)?;
                let style = if event.is("outcome", "completed") { Style::Faint } else { Style::Warning };
                screen.line(style, &usage::ending(event))
            }
            Shown::SessionResumed => screen.line(
                Style::Faint,
                &safe!["[resumed] the agent had forgotten the session, which goes on as ", text("as")],
            ),
            Shown::SessionEnded => {
                screen.line(Style::Warning, &safe!["the session has ended: ", text("reason")])
            }
            // Nothing for a person, or not in this mode.
            Shown::PromptAccepted
            | Shown::PromptSent
            | Shown::PromptTaken
            | Shown::PromptWithdrawn
            | Shown::QuestionAsked
            | Shown::SessionCreated
            | Shown::SessionStatus
            | Shown::SessionUpdated
            | Shown::TurnStarted => Ok(()),
        }
    }

    /// No event came for a moment: tool calls that were announced and not asked about are running.
    pub(crate) fn quiet(&mut self, screen: &mut Screen) -> io::Result<()> {
        let asked: Vec<&String> = self.approvals.values().collect();
        for (id, item) in &mut self.items {
            if item.is_in_progress() && !asked.contains(&id) {
                item.announce(screen)?;
            }
        }
        Ok(())
    }

    /// The tool call of an approval.
    pub(crate) fn call(&self, event: Record<'_>) -> Call {
        let item = event.some_text("item").and_then(|id| self.items.get(id.exact()));
        Call::new(event, item.map(Item::described))
    }

    /// The current activity, for the status line.
    pub(crate) fn activity(&self) -> Option<Safe> {
        self.items.values().find(|item| item.is_tool()).map(|item| item.title().preview(LINE))
    }

    fn started(&mut self, event: Record<'_>, screen: &mut Screen) -> io::Result<()> {
        let (id, text) = (event.text("item"), event.text("text"));
        let mut item = Item::new(event);
        if !item.is_tool() && !item.is_text() {
            screen.line(Style::Faint, &safe!["[", event.text("kind"), "]"])?;
        }
        if self.asks == Asks::ByRule && item.is_in_progress() {
            item.announce(screen)?;
        }
        if self.answers == Answers::Whole && item.is_answer() {
            self.messages.begin(id.exact(), event.some_text("attempt"));
        }
        self.items.insert(id.exact().to_owned(), item);
        self.write(id, text, screen)
    }

    fn grown(&mut self, event: Record<'_>, screen: &mut Screen) -> io::Result<()> {
        let (id, text) = (event.text("item"), event.text("text"));
        match event.text("field").exact() {
            "" | "text" => self.write(id, text, screen),
            "input" => {
                if let Some(item) = self.items.get_mut(id.exact()) {
                    item.written_input().push_str(text.exact());
                }
                Ok(())
            }
            // Only what runs prints something.
            "output" => self.items.get_mut(id.exact()).map_or(Ok(()), |item| item.announce(screen)),
            _ => Ok(()),
        }
    }

    fn replaced(&mut self, event: Record<'_>, screen: &mut Screen) -> io::Result<()> {
        let (id, text) = (event.text("item"), event.text("text"));
        match event.text("field").exact() {
            "" | "text" if self.messages.replace(id.exact(), text.exact()) => Ok(()),
            "" | "text" => {
                screen.line(Style::Faint, &safe!["(what was shown of this is replaced by:)"])?;
                self.write(id, text, screen)
            }
            "input" => {
                if let Some(item) = self.items.get_mut(id.exact()) {
                    text.exact().clone_into(item.written_input());
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn updated(&mut self, event: Record<'_>, screen: &mut Screen) -> io::Result<()> {
        let id = event.text("item").exact();
        let Some(item) = self.items.get_mut(id) else { return Ok(()) };
        item.update(event);
        if !item.is_answer()
            && let Some(text) = self.messages.drop(id)
        {
            // It turns out to be a subagent's.
            screen.aside(Untrusted(&text))?;
        }
        if self.asks == Asks::ByRule && item.is_in_progress() {
            item.announce(screen)?;
        }
        self.release(screen)
    }

    fn write(&mut self, id: Untrusted<'_>, text: Untrusted<'_>, screen: &mut Screen) -> io::Result<()> {
        let Some(item) = self.items.get(id.exact()).filter(|item| !item.is_users() && !text.is_empty())
        else {
            return Ok(());
        };
        if self.messages.append(id.exact(), text.exact()) {
            return Ok(());
        }
        if self.writing.as_deref() != Some(id.exact()) {
            screen.end_line()?;
            self.writing = Some(id.exact().to_owned());
        }
        if item.is_answer() { screen.answer(text) } else { screen.aside(text) }
    }

    fn ended(&mut self, event: Record<'_>, screen: &mut Screen) -> io::Result<()> {
        let id = event.text("item");
        let Some(item) = self.items.remove(id.exact()) else { return Ok(()) };
        if self.writing.as_deref() == Some(id.exact()) {
            self.writing = None;
            screen.end_line()?;
        }
        let is_whole = event.is("state", "completed") && !event.is_true("incomplete");
        if item.is_tool() {
            let (style, line) = item.ending(event);
            return screen.line(style, &line);
        }
        if is_whole {
            self.messages.end(id.exact());
            return self.release(screen);
        }
        let text = self.messages.drop(id.exact());
        let state =
            if event.is("state", "completed") { Untrusted("incomplete") } else { event.text("state") };
        let mut told = safe!["the ", item.kind(), " is not whole: ", state];
        if let Some(reason) = event.some_text("reason") {
            told.extend([safe![": ", reason.preview(LINE)]]);
        }
        screen.line(Style::Warning, &told)?;
        // What there is of it is not the answer.
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            screen.aside(Untrusted(&text))?;
        }
        self.release(screen)
    }

    fn revised(&mut self, event: Record<'_>, screen: &mut Screen) -> io::Result<()> {
        let Some(text) = event.some_text("text") else { return Ok(()) };
        if self.messages.replace(event.text("item").exact(), text.exact()) {
            return Ok(());
        }
        screen.line(Style::Faint, &safe!["(an earlier text was corrected:)"])?;
        screen.aside(text)?;
        screen.end_line()
    }

    fn removed(&mut self, event: Record<'_>, screen: &mut Screen) -> io::Result<()> {
        let id = event.text("item");
        self.items.remove(id.exact());
        self.messages.drop(id.exact());
        screen.line(Style::Faint, &safe!["(taken back, and void: ", id, ")"])?;
        self.release(screen)
    }

    /// The event lists the void items. All other items of the attempt are final.
    fn superseded(&mut self, event: Record<'_>, screen: &mut Screen) -> io::Result<()> {
        let (mut is_void, mut is_held) = (false, false);
        for id in event.list("items").filter_map(Record::as_text) {
            is_void = true;
            self.items.remove(id.exact());
            if let Some(text) = self.messages.drop(id.exact()).filter(|text| !text.is_empty()) {
                is_held = true;
                screen.line(Style::Faint, &safe!["(begun again; this is void:)"])?;
                screen.aside(Untrusted(&text))?;
            }
        }
        if !is_held {
            let void = if is_void { "; what was shown of it is void" } else { "" };
            screen.line(Style::Faint, &safe!["(begun again", void, ")"])?;
        }
        screen.end_line()?;
        self.messages.attempt_superseded(event.text("attempt").exact());
        self.release(screen)
    }

    fn asked(&mut self, event: Record<'_>, screen: &mut Screen) -> io::Result<()> {
        let approval = event.text("approval");
        if let Some(item) = event.some_text("item") {
            self.approvals.insert(approval.exact().to_owned(), item.exact().to_owned());
        }
        match self.asks {
            Asks::Shown => {
                screen.line(Style::Strong, &safe!["[ask] ", self.call(event).title(), " (", approval, ")"])
            }
            Asks::Answered | Asks::ByRule => Ok(()),
        }
    }

    fn resolved(&mut self, event: Record<'_>, screen: &mut Screen) -> io::Result<()> {
        let approval = event.text("approval");
        let outcome = event.text("outcome");
        let line = safe!["[", outcome.spaced(), "] by ", event.text("by"), " (", approval, ")"];
        screen.line(Style::Faint, &line)?;
        let item = self.approvals.remove(approval.exact()).and_then(|item| self.items.get_mut(&item));
        match (item, outcome.exact()) {
            (Some(item), "allow_once" | "allow_always") => item.announce(screen),
            _ => Ok(()),
        }
    }

    /// Writes the messages that are complete and cannot become void.
    fn release(&mut self, screen: &mut Screen) -> io::Result<()> {
        for text in self.messages.settled() {
            screen.answer(Untrusted(&text))?;
            screen.end_line()?;
        }
        Ok(())
    }
}

/// A line if the stream does not continue at the cursor.
pub(crate) fn reset(outcome: Record<'_>) -> Option<Safe> {
    let from = outcome.number("oldest").unwrap_or(1);
    let why = match outcome.text("reason").exact() {
        "generation" => "the log was made anew or put back",
        "beyond_head" => "the log ends before that event",
        "trimmed" => "earlier events are no longer kept",
        _ => "the log does not go on from there",
    };
    outcome.is("outcome", "reset").then(|| safe!["[reset] ", why, "; shown from event ", from, " on"])
}

/// A line for a lost connection.
pub(crate) fn away(error: &ClientError) -> Safe {
    match error {
        ClientError::Unreachable { url, problem } => {
            let (url, problem) = (Untrusted(url), problem.to_string());
            safe!["turnstream: the gateway at ", url, " went away: ", Untrusted(&problem), "; waiting for it"]
        }
        ClientError::Address(_) | ClientError::Refused { .. } | ClientError::Odd { .. } => {
            safe!["turnstream: ", Untrusted(&error.to_string())]
        }
    }
}

/// Shows an event of the second part of the table, if it says something to a person.
fn aside(event: Record<'_>, screen: &mut Screen) -> io::Result<()> {
    let text = |member: &str| event.text(member);
    let known = event.event_type();
    if let Some(Known::TurnCancelling | Known::PromptCancelling) = known {
        screen.line(Style::Faint, &safe!["[cancelling] by ", text("by")])
    } else if known == Some(Known::SessionHandedOver) {
        let line = safe!["[handed over] to session ", text("to"), ", agent ", text("agent")];
        screen.line(Style::Faint, &line)
    } else if known == Some(Known::SessionInherited) {
        let line = safe!["[handed over] from session ", text("from"), ", agent ", text("agent")];
        screen.line(Style::Faint, &line)
    } else if known == Some(Known::UnattendedReleased) {
        let line = safe!["[wait over] ", text("outcome"), ", by ", text("by")];
        screen.line(Style::Faint, &line)
    } else if known == Some(Known::TurnContinues) {
        let (of, reason) = (text("of"), text("reason"));
        screen.line(Style::Faint, &safe!["[continues] turn ", of, ", which failed: ", reason])
    } else {
        Ok(())
    }
}

/// The reason for the retry, and when it happens.
fn retrying(event: Record<'_>) -> Safe {
    let mut line = safe!["[retrying] after ", event.text_or("reason", "an error")];
    if let Some(message) = event.some_text("message") {
        line.extend([safe![": ", message.preview(LINE)]]);
    }
    if let Some(attempt) = event.number("attempt") {
        line.extend([safe![", attempt ", attempt]]);
    }
    if let Some(until) = event.number("until") {
        line.extend([safe![", until ", Untrusted(&moment::to_the_second(until)), " UTC"]]);
    }
    line
}
