//! Subagents: sessions of their own, which belong to a tool call.

use super::thread::{Thread, ThreadPlace};
use super::{Translated, Translator, Want};
use crate::event::{Event, Kind};
use crate::info::Status;
use std::sync::Arc;
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;

impl Translator {
    pub(super) fn of_child(&mut self, session: &str, event: &Arc<Event>, out: &mut Translated) {
        if !self.children.contains_key(session) {
            let Some((child, parent)) = event.new_child() else { return };
            if parent != self.main.session() && !self.children.contains_key(parent) {
                return;
            }
            let thread = Thread::new(child, ThreadPlace::Unlinked(Vec::new()), self.turn);
            self.children.insert(child.to_owned(), thread);
            self.look_for_parent(out);
            return;
        }
        let turn = self.turn;
        if let Some(thread) = self.children.get_mut(session) {
            thread.turn = turn;
        }
        let is_content = matches!(
            event.kind,
            Kind::Message(_) | Kind::Part(_) | Kind::Delta(_) | Kind::PartRemoved { .. }
        );
        if is_content && self.children.get_mut(session).is_some_and(|thread| thread.hold(event)) {
            return;
        }
        self.of_linked(session, event, out);
    }

    fn of_linked(&mut self, session: &str, event: &Arc<Event>, out: &mut Translated) {
        match &event.kind {
            Kind::Message(info) => self.message(info, Some(session), out),
            Kind::Part(part) => self.part(part, Some(session), out),
            Kind::Delta(delta) => self.delta(delta, Some(session), out),
            Kind::MessageRemoved { message } => self.message_removed(message, Some(session), out),
            Kind::PartRemoved { part } => self.part_removed(part, Some(session), out),
            Kind::PermissionAsked(_)
            | Kind::PermissionReplied { .. }
            | Kind::QuestionAsked(_)
            | Kind::QuestionReplied { .. }
            | Kind::QuestionRejected { .. } => self.ask(event, Some(session), out),
            Kind::Status(Status::Retry { .. }) => self.child_retries(session, out),
            // The tool call of a subagent reports its end.
            Kind::Status(_) | Kind::Idle | Kind::Error(_) => {}
            Kind::SessionCreated(_) | Kind::SessionUpdated(_) | Kind::SessionDeleted | Kind::Todos(_) => {}
            Kind::Connected | Kind::Heartbeat | Kind::Disposed | Kind::Other(_) | Kind::Unknown(_) => {}
        }
    }

    /// Requests the messages that may hold the tool call of a new subagent.
    fn look_for_parent(&mut self, out: &mut Translated) {
        let threads = std::iter::once(&self.main).chain(self.children.values());
        for thread in threads {
            for message in thread.open_answers() {
                let (session, message) = (thread.session().to_owned(), message.to_owned());
                out.wants.push(Want::Message { session, message });
            }
        }
    }

    /// A tool call names the session of its subagent. Events that were held for it are translated now.
    pub(super) fn link(&mut self, child: &str, key: &Key, out: &mut Translated) {
        let turn = self.turn;
        let thread = self.children.entry(child.to_owned()).or_insert_with(|| {
            out.wants.push(Want::Child(child.to_owned()));
            Thread::new(child, ThreadPlace::Unlinked(Vec::new()), turn)
        });
        if let ThreadPlace::Unlinked(held) = &mut thread.place {
            let held = std::mem::take(held);
            thread.place = ThreadPlace::Below(key.clone());
            if std::mem::take(&mut thread.overflowed) {
                let message = "a subagent said more than could wait until its call was known";
                out.signals.push(Signal::Gap(message.to_owned()));
                out.wants.push(Want::StatusProbe(None));
            }
            for event in held {
                self.of_linked(child, &event, out);
            }
        }
    }
}
