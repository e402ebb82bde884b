//! The first requests of a connection: `initialize`, and the start or the resumption of the thread.

use super::commands::Request;
use super::{Conversation, ConversationSettings};
use crate::codex::usage::ThreadUsage;
use crate::codex::wire::{OpenedThread, RpcError};
use crate::codex::{mcp, mode};
use crate::foreign_error::shorten;
use serde_json::{Value, json};
use turnstream_adapter::OpenWork;
use turnstream_model::event::{NoticeCode, SessionPatch};
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;

/// How far the first requests have come.
#[derive(Debug)]
pub enum Opening {
    /// There is no connection.
    Closed,
    /// The server was not asked for the thread yet.
    Greeting {
        /// The thread to resume, if it is not a new one.
        resume: Option<String>,
    },
    /// The server was asked for the thread.
    Thread {
        /// The thread to resume, if it is not a new one.
        resume: Option<String>,
    },
    /// The thread is open.
    Open,
    /// The server refuses.
    Failed(OpeningError),
}

/// Why a thread could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpeningError {
    /// A request was refused.
    #[error("it refuses {method}: {message}")]
    Refused {
        /// The request.
        method: &'static str,
        /// The server's words.
        message: String,
    },
}

impl Conversation {
    /// Begins a connection: for a new thread, or to resume one.
    pub fn open(&mut self, resume: Option<String>, now: Time) {
        self.now = now;
        self.opening = Opening::Greeting { resume };
        let client =
            json!({"name": "turnstream", "title": "Turnstream", "version": env!("CARGO_PKG_VERSION")});
        // Only with it Codex has its plan mode, and asks questions.
        let capabilities = json!({"experimentalApi": true, "requestAttestation": false});
        let params = json!({"clientInfo": client, "capabilities": capabilities});
        self.request("initialize", params, Request::Initialize);
    }

    /// Like [`Conversation::open`], and then reports how this work of an earlier link ended or goes on.
    /// `adopted` says that the server has worked on since then.
    pub fn recover(&mut self, resume: Option<String>, open_work: OpenWork, adopted: bool, now: Time) {
        self.begin_recovery(open_work, adopted);
        self.open(resume, now);
    }

    /// Adds these members to the requests that open a thread: they point it at a route of the gateway.
    pub fn use_route(&mut self, members: Value) {
        self.route = members;
    }

    /// How far the first requests have come.
    pub fn opening(&self) -> &Opening {
        &self.opening
    }

    pub(super) fn initialized(&mut self) {
        let Opening::Greeting { resume } = std::mem::replace(&mut self.opening, Opening::Closed) else {
            return;
        };
        self.write(&json!({"method": "initialized"}));
        self.ask_for_thread(resume);
    }

    fn ask_for_thread(&mut self, resume: Option<String>) {
        let ConversationSettings { cwd, model, mode, mcp } = &self.settings;
        let mut params = json!({"cwd": cwd});
        if let Some(model) = model {
            params["model"] = Value::from(model.as_str());
        }
        mode::add_to_thread(&mut params, mode.as_deref());
        for (name, value) in self.route.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        mcp::add_to_thread(&mut params, mcp);
        match &resume {
            Some(thread) => {
                params["threadId"] = Value::from(thread.as_str());
                // The history of a long thread is large. What is needed of it is asked for.
                params["excludeTurns"] = Value::Bool(true);
                self.request("thread/resume", params, Request::OpenThread);
            }
            None => self.request("thread/start", params, Request::OpenThread),
        }
        self.opening = Opening::Thread { resume };
    }

    pub(super) fn thread_opened(&mut self, opened: OpenedThread) {
        let Opening::Thread { resume } = std::mem::replace(&mut self.opening, Opening::Open) else { return };
        let of_thread = mode::of_thread(&opened);
        self.thread = opened.thread.id;
        self.thread_file = opened.thread.path;
        let chosen = self.settings.mode.clone();
        if chosen.as_deref() == Some(mode::PLAN) && of_thread != Some(mode::PLAN) {
            // A thread begins in another one.
            self.changed.mode.clone_from(&chosen);
        }
        if let Some(mode) = chosen.filter(|mode| !mode::exists(mode)) {
            let message = format!("Codex has no mode {mode:?}; it has {}", mode::names());
            self.notice(NoticeCode::Degraded, message);
        }
        let mode = self.changed.mode.clone().or_else(|| of_thread.map(str::to_owned));
        self.settings.model = opened.model.clone().or(self.settings.model.take());
        let native_id = Some(self.thread.clone());
        let patch = SessionPatch { native_id, model: opened.model, mode, ..SessionPatch::default() };
        self.signal(Signal::Session(patch));
        self.request("model/list", json!({}), Request::Models);
        if resume.is_none() {
            self.usage = ThreadUsage::new();
        }
        if resume.is_some() && self.needs_resync() {
            self.held = Some(Vec::new());
            self.await_asks(&opened.thread.status.active_flags);
            self.list_turns();
        } else {
            self.resynced_without_thread();
        }
    }

    /// Whether a new thread takes the place of one that the server refuses to resume: it had no turn yet.
    pub(in crate::codex) fn begin_anew_if_refused(&mut self, begins_anew: bool) {
        self.begins_anew = begins_anew;
    }

    pub(super) fn opening_failed(&mut self, method: &'static str, error: &RpcError) {
        if matches!(&self.opening, Opening::Thread { resume: Some(_) }) && self.begins_anew {
            return self.ask_for_thread(None);
        }
        let message = shorten(&error.message);
        self.opening = Opening::Failed(OpeningError::Refused { method, message });
    }
}
