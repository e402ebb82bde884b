//! The turn that runs in the session: which prompt it is for, how far it is, and whether it looks finished.

use super::thread::{Author, Message};
use super::usage::TurnUsage;
use super::{OwnPrompt, Stored, Translator};
use turnstream_model::event::StopReason;
use turnstream_model::id::Key;

impl Translator {
    /// A prompt is sent under this id: another turn starts.
    pub fn prompted(&mut self, message: &str) {
        // A repeated prompt belongs to the same turn.
        if self.own.as_ref().is_some_and(|own| own.prompt == message) {
            self.evidence = false;
            return;
        }
        self.ours.insert(message.to_owned());
        self.begin_turn();
        self.own = Some(OwnPrompt::new(message));
        self.first = Some(message.to_owned());
        self.evidence = false;
    }

    /// The prompt that was sent last asks for a compaction. opencode chooses the id of its message.
    pub fn prompted_to_compact(&mut self) {
        if let Some(own) = self.own.as_mut().filter(|own| own.compaction.is_none()) {
            own.compaction = Some(None);
        }
    }

    /// A message asks for a compaction: the one that was requested, if its message was not seen yet.
    pub(super) fn compaction_stored(&mut self, message: &str) {
        let waits = |own: &&mut OwnPrompt| own.compaction == Some(None);
        let Some(own) = self.own.as_mut().filter(waits) else { return };
        own.compaction = Some(Some(message.to_owned()));
        own.created.get_or_insert(0.0);
        self.ours.insert(message.to_owned());
        self.first = Some(message.to_owned());
        // Its answer may have been seen before it, and then looked like one of the turn before.
        let turn = self.turn;
        let is_unclear = |known: &&mut Message| known.turn == turn && known.author == Author::EarlierTurn;
        self.main.messages.values_mut().filter(is_unclear).for_each(|known| known.author = Author::Unknown);
    }

    /// The id under which the gateway sent the prompt with this message.
    pub(super) fn sent_as(&self, message: &str) -> String {
        let own = self.own.as_ref().filter(|own| own.is_message(message));
        own.map_or(message, |own| &own.prompt).to_owned()
    }

    /// The message of a prompt at opencode.
    pub fn stored_as<'a>(&'a self, prompt: &'a str) -> &'a str {
        let own = self.own.as_ref().filter(|own| own.prompt == prompt);
        own.and_then(|own| own.compaction.as_ref()?.as_deref()).unwrap_or(prompt)
    }

    /// Resumes a turn that was open when the last link ended, by the ids of its prompts and model calls.
    pub fn resume(&mut self, prompts: &[String], calls: &[Key]) {
        self.ours.extend(prompts.iter().cloned());
        self.at_rest &= prompts.is_empty();
        self.first = prompts.first().cloned();
        for call in calls {
            let (id, repeats) = match call.as_str().split_once('#') {
                Some((id, nth)) => (id, nth.parse::<u32>().unwrap_or(1).saturating_sub(1)),
                None => (call.as_str(), 0),
            };
            let message = self.main.message(id);
            message.author = Author::Assistant;
            message.begun = true;
            message.repeats = message.repeats.max(repeats);
            message.seen_steps = message.repeats + 1;
            self.first.get_or_insert_with(|| id.to_owned());
            self.steps += 1;
            self.at_rest = false;
        }
    }

    /// True if this prompt was the last one to be sent.
    pub fn is_for(&self, prompt: &str) -> bool {
        self.own.as_ref().is_some_and(|own| own.prompt == prompt)
    }

    /// Whether the session showed a sign of work since the prompt was sent.
    pub fn has_evidence(&self) -> bool {
        self.evidence
    }

    /// Whether the sign of work was for this prompt.
    pub fn has_own_evidence(&self) -> bool {
        self.own.as_ref().is_none_or(|own| own.created.is_some())
    }

    /// The prompt was refused because another one runs: what is seen now is the work of that one. Returns
    /// true if some of it was ignored as late news of an earlier turn, and must be fetched.
    pub fn behind_another(&mut self) -> bool {
        self.own = None;
        self.first = None;
        self.evidence = false;
        let turn = self.turn;
        self.ignored_other = self.main.messages.values().any(|message| {
            message.turn == turn && (message.author == Author::EarlierTurn || !message.held.is_empty())
        });
        self.ignored_other
    }

    /// Accepts the turn that the refused prompt waits for: what was ignored of it counts after all.
    pub fn accept_other_turn(&mut self, messages: &[Stored]) {
        if !std::mem::take(&mut self.ignored_other) {
            return;
        }
        self.assume_last_turn(messages);
        let begins =
            messages.iter().position(|stored| self.first.as_deref() == Some(stored.info.id.as_str()));
        for stored in begins.into_iter().flat_map(|first| &messages[first..]) {
            let known = self.main.message(&stored.info.id);
            if known.author == Author::EarlierTurn {
                known.author = Author::Unknown;
            }
        }
    }

    /// True if no model call is open and none is due. The end of a message may have been missed.
    pub fn looks_finished(&self) -> bool {
        let waits_for_tools = matches!(self.finish.as_deref(), Some("tool-calls" | "unknown"));
        let steps = |message: &Message| message.stepping && !message.over && message.turn == self.turn;
        let is_stepping = self.main.messages.values().any(steps);
        !self.at_rest && self.finish.is_some() && !waits_for_tools && !is_stepping
    }

    /// True if the last model call asked for tools and none was refused: another call is due.
    pub fn is_between_calls(&self) -> bool {
        self.finish.as_deref() == Some("tool-calls") && !self.refused
    }

    /// A permission or question was refused. The turn stops at that call (captures d2, e2) or goes on (d3).
    pub fn refuse(&mut self) {
        self.refused = true;
    }

    /// True while an answer is incomplete.
    pub fn has_open_answer(&self) -> bool {
        self.main.open_answers().next().is_some()
    }

    /// True between the end of a turn and the next sign of work.
    pub fn is_at_rest(&self) -> bool {
        self.at_rest
    }

    /// The number of the turn.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// The model calls of this turn.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// The tokens of this turn, with those of subagents.
    pub fn tokens(&self) -> u64 {
        self.usage.tokens()
    }

    /// The cost of this turn in dollars, with that of subagents.
    pub fn cost(&self) -> f64 {
        self.usage.cost()
    }

    /// The stop reason, if the turn stops here.
    pub fn stop_reason(&self) -> Option<StopReason> {
        Some(match self.finish.as_deref()? {
            "length" => StopReason::MaxTokens,
            "content-filter" => StopReason::Refusal,
            // A turn stops at a tool call only if a person refused it (captures d2, e2).
            "tool-calls" => StopReason::Rejected,
            _ => StopReason::EndTurn,
        })
    }

    pub(super) fn begin_turn(&mut self) {
        self.turn += 1;
        self.steps = 0;
        self.first = None;
        self.own = None;
        (self.finish, self.refused) = (None, false);
        self.at_rest = false;
        self.usage = TurnUsage::default();
        for (message, parts) in self.main.begin_turn(self.turn) {
            self.past.note(&message, parts);
        }
        let turn = self.turn;
        self.children.retain(|_, thread| thread.turn + 1 >= turn);
    }

    /// An id of this turn that is the same after a restart.
    pub(super) fn turn_name(&self) -> &str {
        self.first.as_deref().unwrap_or_else(|| self.main.session())
    }
}
