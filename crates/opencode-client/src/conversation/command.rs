//! The keeper's commands.

use super::{Call, Conversation};
use turnstream_adapter::Command;
use turnstream_model::event::{ApprovalOutcome, QuestionOutcome};
use turnstream_model::signal::Need;
use turnstream_model::time::Time;

impl Conversation {
    /// Handles a command of the keeper.
    pub fn command(&mut self, command: Command, now: Time) {
        self.now = now;
        match command {
            Command::Prompt { native_id, content } => self.send(native_id, content),
            Command::Cancel => self.cancel(now),
            Command::CancelPrompt(prompt) => self.stop_prompt(prompt, now),
            Command::Approve { key, outcome, option, message } => {
                self.translator.forget_ask(&key);
                let reply = permission_reply(option.as_deref(), outcome);
                if reply == "reject" {
                    self.translator.refuse();
                }
                self.calls.push_back(Call::Reply { key, reply: reply.to_owned(), message });
            }
            Command::Answer { key, outcome, answers } => {
                self.translator.forget_ask(&key);
                let answers = answers.filter(|_| outcome == QuestionOutcome::Answered);
                if answers.is_none() {
                    self.translator.refuse();
                }
                self.calls.push_back(Call::Answer { key, answers });
            }
            Command::Change { model, mode, permissions: _ } => self.choose(model, mode),
            Command::Fetch(Need::Item(key)) => {
                if let Some((session, message)) = self.translator.message_of(&key) {
                    self.fetch(session, message, Some(key));
                }
            }
            Command::Fetch(Need::StatusProbe(turn)) => {
                self.resync.wanted_probes.push(turn);
                // A snapshot in flight will do: after a gap one is requested before the machine asks.
                if !self.resync.in_flight {
                    self.request_snapshot();
                }
            }
        }
    }
}

/// opencode's reply for a decision. An option of opencode itself is passed on.
fn permission_reply(option: Option<&str>, outcome: ApprovalOutcome) -> &'static str {
    match (option, outcome) {
        (Some("once"), _) => "once",
        (Some("always"), _) => "always",
        (Some("reject"), _) => "reject",
        (_, ApprovalOutcome::AllowOnce) => "once",
        (_, ApprovalOutcome::AllowAlways) => "always",
        (_, ApprovalOutcome::Reject)
        | (_, ApprovalOutcome::Cancelled)
        | (_, ApprovalOutcome::Expired)
        | (_, ApprovalOutcome::Lost) => "reject",
    }
}
