//! Subagents: sessions of their own, below the call they work for.

use super::thread::{Place, Thread};
use super::{Found, Translator, Want};
use crate::opencode::event::{Event, Kind};
use crate::opencode::info::Status;
use std::sync::Arc;
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;

impl Translator {
    pub(super) fn of_child(&mut self, session: &str, event: &Arc<Event>, found: &mut Found) {
        if !self.children.contains_key(session) {
            let Some((child, parent)) = event.new_child() else { return };
            if parent != self.main.session() && !self.children.contains_key(parent) {
                return;
            }
            let thread = Thread::new(child, Place::Unlinked(Vec::new()), self.turn);
            self.children.insert(child.to_owned(), thread);
            self.look_for_parent(found);
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
        self.of_linked(session, event, found);
    }

    fn of_linked(&mut self, session: &str, event: &Arc<Event>, found: &mut Found) {
        match &event.kind {
            Kind::Message(info) => self.message(info, Some(session), found),
            Kind::Part(part) => self.part(part, Some(session), found),
            Kind::Delta(delta) => self.delta(delta, Some(session), found),
            Kind::MessageRemoved { message } => self.message_removed(message, Some(session), found),
            Kind::PartRemoved { part } => self.part_removed(part, Some(session), found),
            Kind::PermissionAsked(_)
            | Kind::PermissionReplied { .. }
            | Kind::QuestionAsked(_)
            | Kind::QuestionReplied { .. }
            | Kind::QuestionRejected { .. } => self.ask(event, Some(session), found),
            Kind::Status(Status::Retry { .. }) => self.child_repeats(session, found),
            // How a subagent ends is told by the call it works for.
            Kind::Status(_) | Kind::Idle | Kind::Error(_) => {}
            Kind::SessionCreated(_) | Kind::SessionUpdated(_) | Kind::SessionDeleted | Kind::Todos(_) => {}
            Kind::Connected | Kind::Heartbeat | Kind::Disposed | Kind::Other(_) | Kind::Unknown(_) => {}
        }
    }

    /// A subagent's call is one whose session is not known yet: the message it is in says which.
    fn look_for_parent(&mut self, found: &mut Found) {
        let threads = std::iter::once(&self.main).chain(self.children.values());
        for thread in threads {
            for message in thread.open_answers() {
                let (session, message) = (thread.session().to_owned(), message.to_owned());
                found.wants.push(Want::Message { session, message });
            }
        }
    }

    /// A call names the session that does its work.
    pub(super) fn link(&mut self, child: &str, key: &Key, found: &mut Found) {
        let turn = self.turn;
        let thread = self.children.entry(child.to_owned()).or_insert_with(|| {
            found.wants.push(Want::Child(child.to_owned()));
            Thread::new(child, Place::Unlinked(Vec::new()), turn)
        });
        if let Place::Unlinked(held) = &mut thread.place {
            let held = std::mem::take(held);
            thread.place = Place::Below(key.clone());
            if std::mem::take(&mut thread.overflowed) {
                let message = "a subagent said more than could wait until its call was known";
                found.signals.push(Signal::Gap(message.to_owned()));
                found.wants.push(Want::Truth(None));
            }
            for event in held {
                self.of_linked(child, &event, found);
            }
        }
    }
}
