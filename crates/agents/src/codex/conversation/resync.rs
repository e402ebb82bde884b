//! Compares the thread with the log: after a restart of the gateway, after a lost connection, and when the
//! keeper asks for the status after a gap.
//!
//! The server is asked for its last turns, with all finished items. Messages that come meanwhile wait, so
//! that missed content comes first. Permissions that are open come again as requests.

use super::commands::{Request, SentPrompt, cancelled};
use super::{Conversation, OpenTurn};
use crate::codex::outcome;
use crate::codex::recorded_usage::RecordedUsage;
use crate::codex::wire::{ItemLine, Turn, TurnList};
use serde_json::json;
use std::collections::HashSet;
use turnstream_adapter::{Fate, Observed, OpenWork};
use turnstream_model::event::{ErrorClass, Outcome, TurnError};
use turnstream_model::id::Key;
use turnstream_model::signal::{Ending, ProbedStatus, Signal};
use turnstream_model::time::Time;

/// How many of the last turns are looked at. Turns come one after another, so the newest is enough.
const TURNS: u32 = 5;
/// How long a server may take to repeat its open requests.
const REPEATS_MILLIS: u64 = 5_000;

/// The work of an earlier link, until it was reported.
pub(super) struct Recovery {
    open_work: OpenWork,
    /// The server has worked on since then.
    adopted: bool,
    /// What is reported last, once the open requests were repeated.
    findings: Option<Findings>,
    /// Requests that the server is expected to repeat, and until when.
    awaited: Option<Time>,
    /// Tokens of calls that have ended, also without a gateway.
    recorded: RecordedUsage,
}

/// What the server has told of the open work.
struct Findings {
    /// Of the prompts without a turn.
    fates: Vec<(String, Fate)>,
    /// Of the open turn.
    status: Option<ProbedStatus>,
}

impl Conversation {
    pub(super) fn begin_recovery(&mut self, open_work: OpenWork, adopted: bool) {
        let recorded = RecordedUsage::default();
        self.recovery = Some(Recovery { open_work, adopted, findings: None, awaited: None, recorded });
    }

    /// What the file of the thread says about tokens, after the thread was opened.
    pub(in crate::codex) fn recorded(&mut self, recorded: RecordedUsage) {
        if let Some(recovery) = &mut self.recovery {
            recovery.recorded = recorded;
        }
    }

    /// The connection to a server that still runs has broken. The next one compares the thread with the log.
    pub fn disconnected(&mut self, reason: &str, now: Time) {
        self.now = now;
        let lost: Vec<Request> = self.requests.drain().map(|(_, request)| request).collect();
        self.lines.clear();
        for request in lost {
            match request {
                // Whether it has begun shows when the turns are listed. It is never sent twice.
                Request::StartTurn(prompt) => self.unanswered.push(prompt),
                Request::Interrupt => self.interrupt_when_seen(),
                Request::Initialize
                | Request::OpenThread
                | Request::Models
                | Request::Turns
                | Request::OpenChild(_)
                | Request::ChildTurns(_) => {}
            }
        }
        self.asks.clear();
        self.items.clear();
        self.leftover_unheard();
        self.children.retain(|_, child| child.busy);
        self.children.values_mut().for_each(|child| child.heard = false);
        self.gap(format!("the connection to Codex broke: {reason}"));
    }

    /// Whether a thread that is resumed has to be compared with the log.
    pub(super) fn needs_resync(&self) -> bool {
        self.recovery.is_some()
            || self.turn.is_some()
            || !self.unanswered.is_empty()
            || !self.probes.is_empty()
    }

    /// The thread waits for a person: its requests come again.
    pub(super) fn await_asks(&mut self, flags: &[String]) {
        let waits = flags.iter().any(|flag| flag.starts_with("waitingOn"));
        if let Some(recovery) = self.recovery.as_mut().filter(|_| waits) {
            recovery.awaited = Some(self.now.plus_millis(REPEATS_MILLIS));
        }
    }

    pub(super) fn list_turns(&mut self) {
        if self.requests.values().any(|request| matches!(request, Request::Turns)) {
            return;
        }
        self.list_turns_of(&self.thread.clone(), Request::Turns);
    }

    pub(super) fn list_turns_of(&mut self, thread: &str, request: Request) {
        let params = json!({"threadId": thread, "limit": TURNS, "itemsView": "full"});
        self.request("thread/turns/list", params, request);
    }

    /// When [`Conversation::tick`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        // Answers of the server come first.
        let recovery = self.recovery.as_ref().filter(|_| !self.awaits_children())?;
        recovery.findings.as_ref()?;
        recovery.awaited
    }

    /// Acts on a deadline that has passed.
    pub fn tick(&mut self, now: Time) {
        self.now = now;
        self.end_recovery();
    }

    /// The last turns of the thread, newest first.
    pub(super) fn compare(&mut self, list: TurnList) {
        let wanted = self.wanted();
        let mut seen = HashSet::new();
        for turn in list.data.into_iter().rev() {
            let mut names: Vec<String> =
                turn.items.iter().filter_map(|item| item.client_id.clone()).collect();
            // A turn that has just begun is listed before its prompt.
            if turn.status == "inProgress" && turn.items.is_empty() && !wanted.turns.contains(&turn.id) {
                names.extend(self.sent_prompt());
            }
            let is_wanted =
                wanted.turns.contains(&turn.id) || names.iter().any(|name| wanted.prompts.contains(name));
            if is_wanted && !self.has_ended(&turn.id) {
                seen.extend(names.iter().cloned());
                self.take_over(turn, names);
            }
        }
        self.compared(Some(&seen));
    }

    /// The server cannot list its turns: nothing can be known of them.
    pub(super) fn cannot_compare(&mut self, message: &str) {
        tracing::warn!("Codex cannot list its turns");
        tracing::debug!(%message, "why Codex cannot list its turns");
        self.compared(None);
    }

    /// There is no thread that could be asked.
    pub(super) fn resynced_without_thread(&mut self) {
        if self.recovery.is_some() {
            self.compared(None);
        }
    }

    /// The turns and prompts that are of interest, by their names.
    fn wanted(&self) -> Wanted {
        let mut wanted = Wanted::default();
        wanted.turns.extend(self.turn.as_ref().map(|turn| turn.id.clone()));
        wanted.prompts.extend(self.unanswered.iter().map(|prompt| prompt.native_id.clone()));
        if let Some(Recovery { open_work, .. }) = &self.recovery {
            wanted.turns.extend(open_work.turn_native_id.clone());
            wanted.prompts.extend(open_work.taken.iter().chain(&open_work.prompts).cloned());
        }
        wanted
    }

    /// The prompt that was sent last, and has no turn yet.
    fn sent_prompt(&self) -> Option<String> {
        let unanswered = self.unanswered.last().map(|prompt| &prompt.native_id);
        let recovered = || self.recovery.as_ref()?.open_work.prompts.last();
        unanswered.or_else(recovered).cloned()
    }

    /// Shows what the server has of a turn, and goes on with it or ends it.
    fn take_over(&mut self, turn: Turn, prompts: Vec<String>) {
        let is_taken = |prompt: &mut SentPrompt| prompts.contains(&prompt.native_id);
        let taken: Vec<SentPrompt> = self.unanswered.extract_if(.., is_taken).collect();
        let calls = self.recovery.as_ref().map_or(0, |recovery| recovery.open_work.calls.len());
        if self.turn.as_ref().is_none_or(|open| open.id != turn.id) {
            let native_id = Some(turn.id.clone());
            self.signal(Signal::TurnBegan { origin: None, prompts: prompts.clone(), native_id });
            let recorded = self.recovery.as_ref().map(|recovery| &recovery.recorded);
            let usage = recorded.and_then(|recorded| recorded.of_turn(&turn.id));
            // A report of a call that is among them does not count again.
            if let Some(total) = recorded.and_then(RecordedUsage::total) {
                self.usage.resume(total);
            }
            self.turn = Some(OpenTurn { calls, usage, ..OpenTurn::new(&turn.id, prompts) });
        }
        // Items belong to calls that the log may have. New ones are of a call of their own.
        let call_was_open = self.turn.as_ref().is_some_and(|open| open.call_is_open);
        if let Some(open) = self.turn.as_mut().filter(|open| open.calls > 0) {
            open.call_is_open = true;
        }
        let ending = outcome::ending(&turn, None);
        self.show_listed(&self.thread.clone(), turn);
        if let Some(open) = &mut self.turn {
            open.call_is_open = call_was_open;
        }
        let adopted = self.recovery.as_ref().is_none_or(|recovery| recovery.adopted);
        if taken.iter().any(|prompt| prompt.unwanted) {
            self.interrupt_when_seen();
        }
        match ending {
            None => self.interrupt_again(),
            // A server that was killed says `interrupted` of the turn it had (capture `k_kill_then_resume`).
            Some(ending) if ending.outcome == Outcome::Cancelled && !adopted => self.end_turn(lost()),
            Some(ending) => self.end_turn(ending),
        }
    }

    /// Shows the items of a listed turn.
    pub(super) fn show_listed(&mut self, thread: &str, turn: Turn) {
        for item in turn.items {
            let line = ItemLine { thread_id: thread.to_owned(), turn_id: turn.id.clone(), item };
            if line.item.is_in_progress() {
                self.item_started(&line);
            } else {
                self.item_completed(&line, None);
            }
        }
    }

    /// All turns were looked at, and had these prompts. Messages that came meanwhile follow.
    fn compared(&mut self, seen: Option<&HashSet<String>>) {
        for SentPrompt { native_id, unwanted } in std::mem::take(&mut self.unanswered) {
            let message = "the connection to Codex broke before it took the prompt; send it again";
            let lost = || TurnError::new(ErrorClass::TransportLost, message);
            let error = if unwanted { cancelled() } else { lost() };
            self.signal(Signal::PromptRefused { native_id, error });
        }
        if let Some(Recovery { open_work, adopted, findings, .. }) = &mut self.recovery {
            let fate = |prompt: &String| match seen {
                Some(seen) if seen.contains(prompt) => Fate::Taken,
                Some(_) if *adopted => Fate::NeverSeen,
                Some(_) | None => Fate::Unknown,
            };
            let fates = open_work.prompts.iter().map(|prompt| (prompt.clone(), fate(prompt))).collect();
            let status = open_work.turn.as_ref().map(|_| match &self.turn {
                Some(_) => ProbedStatus::Busy,
                None => ProbedStatus::Idle,
            });
            *findings = Some(Findings { fates, status });
            // The log has a turn that the server does not have.
            let missing = open_work.turn_native_id.clone();
            if let Some(native_id) = missing.filter(|id| self.turn.is_none() && !self.has_ended(id)) {
                self.signal(Signal::TurnDone { native_id: Some(native_id), ending: lost() });
            }
        }
        // Else the connection is the same as before.
        if self.held.is_some() {
            self.resume_children();
        }
        let now = self.now;
        for line in self.held.take().unwrap_or_default() {
            self.line(&line, now);
        }
        let status = if self.turn.is_some() { ProbedStatus::Busy } else { ProbedStatus::Idle };
        for turn in std::mem::take(&mut self.probes) {
            self.signal(Signal::StatusProbed { turn, status });
        }
        self.end_recovery();
    }

    /// Reports the last part of a recovery, once the requests were repeated that the log has open.
    pub(super) fn end_recovery(&mut self) {
        if self.awaits_children() {
            return;
        }
        let Some(Recovery { open_work, findings: Some(_), awaited, .. }) = &self.recovery else { return };
        let mut open = open_work.asks.iter().chain(&open_work.questions);
        let is_repeated = |key: &Key| self.waits_for(key);
        let is_over =
            self.turn.is_none() || awaited.is_none_or(|until| until <= self.now) || open.all(is_repeated);
        if !is_over {
            return;
        }
        let Some(Recovery { open_work, findings: Some(Findings { fates, status }), .. }) =
            self.recovery.take()
        else {
            return;
        };
        for (native_id, fate) in fates {
            self.observed.push_back(Observed::Fate { native_id, fate });
        }
        if let (Some(turn), Some(status)) = (open_work.turn, status) {
            self.signal(Signal::StatusProbed { turn, status });
        }
        self.observed.push_back(Observed::CaughtUp);
    }
}

#[derive(Default)]
struct Wanted {
    turns: HashSet<String>,
    prompts: HashSet<String>,
}

/// The end of a turn that a server had when it died.
fn lost() -> Ending {
    Ending::lost(TurnError::new(ErrorClass::AgentExited, "Codex ended before it finished the turn"))
}
