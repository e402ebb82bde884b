//! A keeper that waits for the disk still hears what it is asked. If the disk fails, it answers at once: a turn can be
//! stopped without a disk, and everything else is refused.

use super::clocks::Clocks;
use super::connection::Connection;
use super::keys::Keys;
use super::waits::OpenWaits;
use crate::error::RequestError;
use crate::request::{NewPrompt, Request};
use crate::settings::Settings;
use crate::trouble::{Trouble, trouble};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use tokio::sync::{mpsc, oneshot};
use turnstream_log::Log;
use turnstream_model::machine::{Cancel, Cancelled, Machine};

/// Requests that may wait beside the queue. On a disk that fails none does for long.
const MOST_HEARD: usize = 64;

/// Where requests come in.
pub(super) struct Ears {
    requests: mpsc::Receiver<Request>,
    /// Heard while the keeper waited for the disk, and not yet looked at.
    heard: VecDeque<Request>,
}

impl Ears {
    pub(super) fn new(requests: mpsc::Receiver<Request>) -> Self {
        Self { requests, heard: VecDeque::new() }
    }

    /// The next request; none when nobody can ask any more. Safe to drop and call again.
    pub(super) async fn next(&mut self) -> Option<Request> {
        match self.heard.pop_front() {
            Some(request) => Some(request),
            None => self.requests.recv().await,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heard.is_empty() && self.requests.is_empty()
    }

    /// Nothing more is taken.
    pub(super) fn close(&mut self) {
        self.requests.close();
    }

    /// Refuses all there is, now that nobody will look at it.
    pub(super) async fn refuse_all(mut self, error: RequestError) {
        self.close();
        while let Some(request) = self.next().await {
            request.refuse(error.clone());
        }
    }

    /// Waits for the log before the session is ours. Requests wait too, unless the disk fails: then they are refused.
    pub(super) async fn until_claimed<T>(&mut self, log: &Log, claim: impl Future<Output = T>) -> T {
        let mut claim = pin!(claim);
        let trouble = tokio::select! {
            biased;
            claimed = &mut claim => return claimed,
            trouble = trouble(log) => trouble,
        };
        loop {
            tokio::select! {
                biased;
                claimed = &mut claim => return claimed,
                Some(request) = self.requests.recv() => {
                    request.refuse(trouble.clone().refused());
                }
            }
        }
    }
}

/// The parts of a keeper that go on while it waits for the disk.
pub(super) struct Meanwhile<'a> {
    pub(super) ears: &'a mut Ears,
    pub(super) log: &'a Log,
    pub(super) settings: &'a Settings,
    pub(super) machine: &'a Machine,
    pub(super) clocks: &'a mut Clocks,
    pub(super) connection: &'a Connection,
    pub(super) keys: &'a Keys,
    pub(super) waits: &'a OpenWaits,
    /// The prompt that was last told to the agent.
    pub(super) at_agent: Option<&'a str>,
    pub(super) recovering: bool,
}

impl Meanwhile<'_> {
    /// Waits for the disk.
    pub(super) async fn wait<T>(mut self, disk: impl Future<Output = T>) -> T {
        let mut disk = pin!(disk);
        let mut failing = pin!(trouble(self.log));
        let mut trouble: Option<Trouble> = None;
        loop {
            tokio::select! {
                biased;
                done = &mut disk => return done,
                Some(request) = self.ears.requests.recv(), if self.ears.heard.len() < MOST_HEARD => {
                    let heard = self.hear(request).await;
                    self.ears.heard.extend(match &trouble {
                        Some(trouble) => self.answer(heard, trouble),
                        None => Some(heard),
                    });
                }
                said = &mut failing, if trouble.is_none() => {
                    for request in std::mem::take(&mut self.ears.heard) {
                        let kept = self.answer(request, &said);
                        self.ears.heard.extend(kept);
                    }
                    trouble = Some(said);
                }
            }
        }
    }

    /// The agent is told to stop at once, as it is when nothing is waited for. One that is still being asked what it has
    /// is told after that.
    async fn hear(&mut self, request: Request) -> Request {
        if let Request::Cancel(what, _) = &request
            && let Ok(Cancelled { turn, prompts }) = self.machine.cancellable(what)
            && !self.recovering
        {
            // One that waits for the disk has not left, and is told of when it has.
            let sent = self.machine.sent_prompts().into_iter().filter(|(prompt, _)| prompts.contains(prompt));
            for name in sent.filter_map(|(_, name)| name).filter(|name| self.at_agent == Some(name)) {
                self.clocks.tell_to_stop_prompt(self.connection, self.settings.cancel, name).await;
            }
            if turn.is_some() {
                self.clocks.tell_to_stop(self.connection, self.settings.cancel).await;
            }
        }
        request
    }

    /// Answers a request that cannot be kept. A cancel stays, with nobody who waits for it: the log says that it was wanted
    /// as soon as it can.
    fn answer(&self, request: Request, trouble: &Trouble) -> Option<Request> {
        match request {
            Request::Cancel(what, reply) => {
                let what = match self.machine.cancellable(&what) {
                    Ok(cancelled) => named(what, cancelled),
                    Err(refusal) => {
                        // Whoever asked may have gone away.
                        let _ = reply.send(Err(refusal.into()));
                        return None;
                    }
                };
                let _ = reply.send(Err(match trouble.clone().unkept() {
                    RequestError::Unkept(problem) if self.clocks.was_told_to_stop() => {
                        RequestError::StopUnkept(problem)
                    }
                    other => other,
                }));
                let is_same = |heard: &Request| matches!(heard, Request::Cancel(kept, _) if *kept == what);
                let is_kept = self.ears.heard.iter().any(is_same);
                (!is_kept).then(|| Request::Cancel(what, oneshot::channel().0))
            }
            other => {
                let was_taken = self.was_taken(&other);
                let trouble = trouble.clone();
                other.refuse(if was_taken { trouble.unkept() } else { trouble.refused() });
                None
            }
        }
    }

    /// It is the same as one that was taken before, by its key.
    fn was_taken(&self, request: &Request) -> bool {
        match request {
            Request::Prompt(NewPrompt { content, key: Some(key) }, _) => {
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
            | Request::End(..)
            | Request::EndIfQuiet(..) => false,
        }
    }
}

/// A cancel of whatever runs, as one of what runs now: it must not hit what comes later.
fn named(what: Cancel, cancelled: Cancelled) -> Cancel {
    let Cancelled { turn, mut prompts } = cancelled;
    match (turn, prompts.pop()) {
        (Some(turn), None) => Cancel::Turn(turn),
        (None, Some(prompt)) if prompts.is_empty() => Cancel::Prompt(prompt),
        (None | Some(_), _) => what,
    }
}
