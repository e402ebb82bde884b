//! What a keeper does while it waits for the disk. It still receives requests. If the disk fails it answers
//! them at once: stopping an agent needs no disk, and every other request is refused.

use super::clocks::Clocks;
use super::connection::Connection;
use super::inbox::RequestInbox;
use super::keys::Keys;
use super::waits::OpenWaits;
use crate::disk_failure::{self, DiskFailure};
use crate::error::RequestError;
use crate::request::{ClientRequest, NewPrompt, Request, answer};
use crate::settings::Settings;
use std::pin::pin;
use tokio::sync::oneshot;
use turnstream_log::Log;
use turnstream_model::machine::{Cancel, Cancelled, Machine};

/// Most requests that wait beside the channel. While the disk fails, requests are answered and do not wait.
const MOST_POSTPONED: usize = 64;

/// The parts of a keeper that are in use while it waits for the disk.
pub(super) struct DiskWait<'a> {
    pub(super) inbox: &'a mut RequestInbox,
    pub(super) log: &'a Log,
    pub(super) settings: &'a Settings,
    pub(super) machine: &'a Machine,
    pub(super) clocks: &'a mut Clocks,
    pub(super) connection: &'a Connection,
    pub(super) keys: &'a Keys,
    pub(super) waits: &'a OpenWaits,
    /// The prompt that was sent to the agent last, by its name there.
    pub(super) at_agent: Option<&'a str>,
    pub(super) recovering: bool,
}

impl DiskWait<'_> {
    /// Waits for the disk.
    pub(super) async fn wait<T>(mut self, disk: impl Future<Output = T>) -> T {
        let mut disk = pin!(disk);
        let mut failing = pin!(disk_failure::wait(self.log));
        let mut failure: Option<DiskFailure> = None;
        loop {
            tokio::select! {
                biased;
                done = &mut disk => return done,
                Some(request) = self.inbox.requests.recv(), if self.inbox.postponed.len() < MOST_POSTPONED => {
                    self.stop_agent(&request.request).await;
                    let postponed = match &failure {
                        Some(failure) => self.answer_without_disk(request, failure),
                        None => Some(request),
                    };
                    self.inbox.postponed.extend(postponed);
                }
                begun = &mut failing, if failure.is_none() => {
                    for request in std::mem::take(&mut self.inbox.postponed) {
                        let postponed = self.answer_without_disk(request, &begun);
                        self.inbox.postponed.extend(postponed);
                    }
                    failure = Some(begun);
                }
            }
        }
    }

    /// A cancel reaches the agent at once, whether or not the keeper waits for the disk. During a recovery
    /// it is sent when the recovery is over.
    async fn stop_agent(&mut self, request: &Request) {
        if let Request::Cancel(what, _) = request
            && let Ok(Cancelled { turn, prompts, parked: _ }) = self.machine.cancellable(what)
            && !self.recovering
        {
            // A prompt whose `prompt.sent` is not durable has not left; it is stopped when it has.
            let sent = self.machine.sent_prompts().into_iter().filter(|(prompt, _)| prompts.contains(prompt));
            for name in sent.filter_map(|(_, name)| name).filter(|name| self.at_agent == Some(name)) {
                self.clocks.tell_to_stop_prompt(self.connection, self.settings.cancel, name).await;
            }
            if turn.is_some() {
                self.clocks.tell_to_stop(self.connection, self.settings.cancel).await;
            }
        }
    }

    /// Answers a request while the disk fails. A cancel also stays in the inbox, without its reply: it is
    /// appended when the disk works again.
    fn answer_without_disk(&self, request: ClientRequest, failure: &DiskFailure) -> Option<ClientRequest> {
        let ClientRequest { actor, request } = request;
        match request {
            Request::Cancel(what, reply) => {
                let what = match self.machine.cancellable(&what) {
                    Ok(cancelled) => specific(what, cancelled),
                    Err(refusal) => {
                        answer(reply, Err(refusal.into()));
                        return None;
                    }
                };
                let error = match failure.clone().not_durable_yet() {
                    RequestError::NotDurableYet(problem) if self.clocks.was_told_to_stop() => {
                        RequestError::StopNotDurableYet(problem)
                    }
                    other => other,
                };
                answer(reply, Err(error));
                // Of several clients that want the same, the first is the one that the log names.
                let is_postponed =
                    self.inbox.postponed.iter().any(|postponed| postponed.request.cancels(&what));
                let request = Request::Cancel(what, oneshot::channel().0);
                (!is_postponed).then_some(ClientRequest { actor, request })
            }
            other => {
                let was_accepted = self.was_accepted(&other);
                let failure = failure.clone();
                other.refuse(if was_accepted { failure.not_durable_yet() } else { failure.refused() });
                None
            }
        }
    }

    /// Whether the request repeats an accepted one, by its key.
    fn was_accepted(&self, request: &Request) -> bool {
        match request {
            Request::Prompt(NewPrompt { content, key: Some(key), budget: _ }, _) => {
                self.keys.find(key, content).is_some_and(|(_, same)| same)
            }
            Request::Resolve(approval, answer, _) => {
                answer.key.is_some() && self.waits.ask_keys.get(approval) == answer.key.as_ref()
            }
            Request::Answer(question, answer, _) => {
                answer.key.is_some() && self.waits.question_keys.get(question) == answer.key.as_ref()
            }
            Request::Prompt(..)
            | Request::Withdraw(..)
            | Request::Cancel(..)
            | Request::Change(..)
            | Request::Wake(..)
            | Request::Budget(..)
            | Request::HandOver(..)
            | Request::Resume(..)
            | Request::End(..)
            | Request::EndIfQuiet(..) => false,
        }
    }
}

/// A cancel of "whatever runs" becomes a cancel of what runs now, so that it cannot stop a later turn.
fn specific(what: Cancel, cancelled: Cancelled) -> Cancel {
    let Cancelled { turn, mut prompts, parked } = cancelled;
    match (turn.or(parked), prompts.pop()) {
        (Some(turn), None) => Cancel::Turn(turn),
        (None, Some(prompt)) if prompts.is_empty() => Cancel::Prompt(prompt),
        (None | Some(_), _) => what,
    }
}
