//! Opens a session: its conversation so far, its settings, and the place in the log from which it goes on.

use super::asks::Asks;
use super::prompts::Prompts;
use super::settings::Settings;
use super::work::Work;
use super::{Session, Shared, successor};
use crate::output::{EditorGone, write_line, write_response};
use crate::problem::{self, INTERNAL};
use agent_client_protocol_schema::v1::{
    AvailableCommandsUpdate, CancelRequestNotification, Error, LoadSessionResponse, NewSessionResponse,
    RequestId, ResumeSessionResponse, SessionUpdate,
};
use serde_json::{Value, json};
use std::collections::VecDeque;
use tokio::task::JoinSet;
use turnstream_client::{Client, ClientError, Patience, segment, with_retries};
use turnstream_dialects::acp::{AcpEvent, Encoder, request_id};
use turnstream_model::fold::Snapshot;

/// How a session is opened, and the request that is answered.
#[derive(Debug)]
pub(crate) enum Opening {
    /// It was made just now, with these MCP servers.
    New { id: RequestId, mcp: Vec<Value> },
    /// The editor gets the conversation so far.
    Load { id: RequestId },
    /// The editor has the conversation.
    Resume { id: RequestId },
}

/// A session of the gateway as it is now.
pub(super) struct Current {
    pub(super) gateway_id: String,
    pub(super) snapshot: Snapshot,
    pub(super) settings: Settings,
}

impl Opening {
    /// The request of the editor.
    pub(crate) fn request(&self) -> &RequestId {
        match self {
            Self::New { id, .. } | Self::Load { id } | Self::Resume { id } => id,
        }
    }
}

impl Current {
    /// Reads a session. The agents are known a moment later than the session, so both are read at once.
    pub(super) async fn read(client: &Client, id: &str) -> Result<Self, Error> {
        let path = format!("/v1/sessions/{}", segment(id));
        let session = with_retries(|| client.get(&path)).await.map_err(|error| problem::error(&error))?;
        let session = successor::last(client, session).await.map_err(|error| problem::error(&error))?;
        let gateway_id = session["id"].as_str().unwrap_or(id).to_owned();
        let (snapshot, agents) = tokio::join!(snapshot(client, &gateway_id), client.get("/v1/agents"));
        let snapshot = snapshot.map_err(|error| problem::error(&error))?;
        let snapshot: Snapshot = serde_json::from_value(snapshot).map_err(|error| {
            Error::new(INTERNAL, format!("the gateway is of another version than this turnstream: {error}"))
        })?;
        let agents = agents.unwrap_or_else(|error| {
            tracing::warn!(%error, "the list of agents cannot be read");
            Value::Null
        });
        let settings = Settings::new(&snapshot.state, &agents);
        Ok(Self { gateway_id, snapshot, settings })
    }

    /// The place in the log after it.
    pub(super) fn cursor(&self) -> String {
        format!("{}:{}", self.snapshot.generation.as_str(), self.snapshot.state.seq)
    }
}

async fn snapshot(client: &Client, session: &str) -> Result<Value, ClientError> {
    let path = format!("/v1/sessions/{}/snapshot", segment(session));
    with_retries(|| client.get(&path)).await
}

impl Session {
    /// Opens a session and answers the request. None if it cannot be opened.
    pub(super) async fn open(shared: Shared, id: &str, opening: Opening) -> Result<Option<Self>, EditorGone> {
        let current = match Current::read(&shared.client, id).await {
            Ok(current) => current,
            Err(error) => {
                shared.output.respond::<()>(opening.request(), Err(error)).await?;
                return Ok(None);
            }
        };
        let mut messages = Vec::new();
        let encoder = Encoder::replay(&current.snapshot.state, &mut messages);
        let mut session = Self {
            events: shared.client.events(&current.gateway_id, &current.cursor(), Patience::Unlimited),
            shared,
            id: id.to_owned(),
            gateway_id: current.gateway_id,
            settings: current.settings,
            mcp: Vec::new(),
            encoder,
            work: Work::of(&current.snapshot.state),
            prompts: Prompts::default(),
            unsent: VecDeque::new(),
            is_sending: false,
            is_changing_agent: false,
            asks: Asks::default(),
            requests: JoinSet::new(),
            away: None,
            messages: Vec::new(),
            lines: Vec::new(),
        };
        session.opened(opening, messages);
        session.flush().await?;
        Ok(Some(session))
    }

    /// Opens it once more. The editor waits for no answer to a prompt.
    pub(super) async fn reopen(&mut self, opening: Opening) -> Result<(), EditorGone> {
        let current = match Current::read(&self.shared.client, &self.id).await {
            Ok(current) => current,
            Err(error) => return self.shared.output.respond::<()>(opening.request(), Err(error)).await,
        };
        let mut messages = Vec::new();
        self.encoder = Encoder::replay(&current.snapshot.state, &mut messages);
        let cursor = current.cursor();
        self.work = Work::of(&current.snapshot.state);
        self.prompts.catch_up(&current.snapshot.state, self.is_sending);
        (self.gateway_id, self.settings) = (current.gateway_id, current.settings);
        self.follow(&cursor);
        self.opened(opening, messages);
        self.ask_to_cancel();
        Ok(())
    }

    /// Writes the conversation where it is wanted, the answer, and then what waits for a person.
    fn opened(&mut self, opening: Opening, messages: Vec<AcpEvent>) {
        let (mut asks, mut history) = (Vec::new(), Vec::new());
        for message in messages {
            match message {
                AcpEvent::Permission(_) | AcpEvent::Question(_) => asks.push(message),
                // What is true now is known when something changes.
                AcpEvent::Status(_) | AcpEvent::Notice(_) if !self.shared.announced.extensions => {}
                _ => history.push(message),
            }
        }
        let (modes, options) = (self.settings.modes(), Some(self.settings.options()));
        match opening {
            Opening::New { id, mcp } => {
                self.mcp = mcp;
                let answer = NewSessionResponse::new(self.id.clone()).modes(modes).config_options(options);
                write_response(&id, &Ok(answer), &mut self.lines);
            }
            Opening::Load { id } => {
                history.into_iter().for_each(|message| self.write(message));
                let answer = LoadSessionResponse::new().modes(modes).config_options(options);
                write_response(&id, &Ok(answer), &mut self.lines);
            }
            Opening::Resume { id } => {
                let answer = ResumeSessionResponse::new().modes(modes).config_options(options);
                write_response(&id, &Ok(answer), &mut self.lines);
            }
        }
        let commands = self.settings.commands();
        if !commands.is_empty() {
            self.write_update(SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands)));
        }
        self.show_asks(asks);
    }

    /// Asks what is open. A request that the editor has already is left. One that was settled is cancelled.
    fn show_asks(&mut self, asks: Vec<AcpEvent>) {
        let id = |ask: &AcpEvent| match ask {
            AcpEvent::Permission(permission) => permission.approval.as_str().to_owned(),
            AcpEvent::Question(question) => question.question.as_str().to_owned(),
            _ => String::new(),
        };
        let open: Vec<String> = asks.iter().map(id).collect();
        for settled in self.asks.close_others(&open) {
            let params = CancelRequestNotification::new(request_id(&self.id, &settled));
            let message = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params});
            write_line(&message, &mut self.lines);
        }
        for (ask, id) in asks.into_iter().zip(open) {
            if !self.asks.is_open(&id) {
                self.write(ask);
            }
        }
    }
}
