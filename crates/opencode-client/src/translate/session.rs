//! Events of the session itself, other than messages: status, idle, errors, to-do lists.

use super::thread::Thread;
use super::{Translated, Translator, is_finish};
use crate::event::{Event, Kind};
use crate::info::{SessionInfo, Status, Todo};
use crate::turn_error::{shorten, turn_error};
use std::sync::Arc;
use turnstream_model::event::{ErrorClass, Field, ItemKind, NoticeCode, SessionPatch, TurnError};
use turnstream_model::id::Key;
use turnstream_model::signal::{Finality, ItemSeen, Signal};
use turnstream_model::time::Time;

impl Translator {
    pub(super) fn of_main(&mut self, event: &Arc<Event>, out: &mut Translated) {
        let idle_reported = std::mem::take(&mut self.main.idle_reported);
        match &event.kind {
            Kind::Status(status) => self.status(status, out),
            // An idle status is always followed by an idle event. Together they are one idle.
            Kind::Idle if idle_reported => {}
            Kind::Idle => self.idle(out),
            Kind::Error(error) => {
                if let Some(error) = error.as_ref().filter(|error| !is_finish(error)) {
                    out.signals.push(Signal::Failed(turn_error(error)));
                }
            }
            Kind::SessionCreated(info) | Kind::SessionUpdated(info) => session_changed(info, out),
            Kind::SessionDeleted => out.signals.extend(deleted()),
            Kind::Unknown(name) => self.note_unknown(name, out),
            Kind::Message(info) => self.message(info, None, out),
            Kind::Part(part) => self.part(part, None, out),
            Kind::Delta(delta) => self.delta(delta, None, out),
            Kind::MessageRemoved { message } => self.message_removed(message, None, out),
            Kind::PartRemoved { part } => self.part_removed(part, None, out),
            Kind::PermissionAsked(_)
            | Kind::PermissionReplied { .. }
            | Kind::QuestionAsked(_)
            | Kind::QuestionReplied { .. }
            | Kind::QuestionRejected { .. } => self.ask(event, None, out),
            Kind::Todos(todos) => self.todos(todos, out),
            Kind::Connected | Kind::Heartbeat | Kind::Disposed | Kind::Other(_) => {}
        }
    }

    fn status(&mut self, status: &Status, out: &mut Translated) {
        match status {
            Status::Idle => {
                self.main.idle_reported = true;
                self.idle(out);
            }
            Status::Busy => {
                self.evidence = true;
                out.signals.push(Signal::TurnBegan { origin: None, prompts: Vec::new(), native_id: None });
                self.start_retries(out);
            }
            Status::Unknown => {}
            Status::Retry { attempt, message: words, next } => {
                self.evidence = true;
                let open: Vec<String> = self.main.open_answers().map(str::to_owned).collect();
                let mut is_new = open.is_empty();
                for id in open {
                    let message = self.main.message(&id);
                    // A known retry comes again if the snapshot was ahead of the stream.
                    let is_known = *attempt > 0 && *attempt <= message.repeats;
                    if !is_known && message.ahead.is_none() {
                        message.repeat_due = true;
                        is_new = true;
                        self.main.void_texts(&id, out);
                    }
                }
                if !is_new {
                    return;
                }
                let until = next.map(|next| Time(next as u64));
                out.signals.push(Signal::Retrying {
                    attempt: Some(*attempt),
                    reason: None,
                    until,
                    message: Some(shorten(words)).filter(|words| !words.is_empty()),
                });
            }
        }
    }

    /// The server reports the session as idle: the turn is over.
    pub fn end_turn(&mut self, out: &mut Translated) {
        self.main.give_up_answers();
        self.idle(out);
        self.at_rest = true;
    }

    /// Ends all open texts: half a character at the end of one becomes U+FFFD.
    pub fn flush_half_characters(&mut self, out: &mut Translated) {
        self.main.flush_half_characters(out);
        let mut children: Vec<&mut Thread> = self.children.values_mut().collect();
        children.sort_by(|one, other| one.session().cmp(other.session()));
        children.into_iter().for_each(|child| child.flush_half_characters(out));
    }

    /// The session reports an idle. The machine decides whether the turn is over.
    fn idle(&mut self, out: &mut Translated) {
        // A call that asked for tools is followed by another. An idle before that belongs to an earlier turn.
        let announced = matches!(self.finish.as_deref(), Some("tool-calls"));
        // So does an idle before the first model call.
        let began = self.steps > 0 && !announced;
        self.at_rest |= began && self.main.open_answers().next().is_none();
        out.signals.push(Signal::TurnIdle { stop_reason: self.stop_reason() });
    }

    pub(super) fn todos(&mut self, todos: &[Todo], out: &mut Translated) {
        let line = |todo: &Todo| {
            let (mark, note) = match todo.status.as_str() {
                "completed" => ('x', ""),
                "in_progress" => ('~', ""),
                "cancelled" => ('x', " (cancelled)"),
                _ => (' ', ""),
            };
            format!("- [{mark}] {}{note}", todo.content)
        };
        let text = todos.iter().map(line).collect::<Vec<_>>().join("\n");
        // One list per turn, so that each turn shows its state.
        let key = Key::from(format!("todos#{}", self.turn_name()));
        let (kind, role, parent, synthetic) = (ItemKind::Plan, None, None, false);
        out.signals.push(Signal::ItemSeen(ItemSeen { key: key.clone(), kind, role, parent, synthetic }));
        out.signals.push(Signal::TextSnapshot { key, field: Field::Text, text, finality: Finality::Final });
    }
}

/// The signals for a session that another client has deleted. The next link gets a new session.
pub fn deleted() -> [Signal; 2] {
    let message = "the session was deleted in opencode by another client; the next prompt gets a new one, which does not \
                   know what was said before";
    let notice = Signal::Notice { code: NoticeCode::Forgotten, message: message.to_owned(), detail: None };
    [notice, Signal::LinkLost(TurnError::new(ErrorClass::AgentError, message))]
}

fn session_changed(info: &SessionInfo, out: &mut Translated) {
    // The first title is a date. The model sets the real one later.
    let is_named = !info.title.is_empty() && !info.title.starts_with("New session - ");
    let patch = SessionPatch {
        title: is_named.then(|| info.title.clone()),
        model: info.model.as_ref().map(|model| format!("{}/{}", model.provider, model.id)),
        mode: info.agent.clone(),
        ..SessionPatch::default()
    };
    if !patch.is_empty() {
        out.signals.push(Signal::Session(patch));
    }
}
