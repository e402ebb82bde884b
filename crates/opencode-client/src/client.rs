//! The REST client of one opencode server.

use super::bus::{Bus, BusSettings, Buses};
use super::directory::Directory;
use super::error::ClientError;
use super::info::Status;
use super::password::PasswordSource;
use super::prompt::Prompt;
use super::rest::{
    CommandInfo, Ensured, Health, Pending, PermissionReply, Session, SessionRef, StoredMessage, check_id,
};
use super::settings::{ClientInfo, Timeouts};
use super::transport::{Call, Transport, read};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use turnstream_adapter::{Counters, Counts};

/// The pause between two probes of a health check.
const BETWEEN_PROBES: Duration = Duration::from_millis(200);
/// How long the answer to a command is read. It comes at the end of the turn, and nothing depends on it.
const LONGEST_RUN: Duration = Duration::from_secs(3_600);
/// A command that is not refused within this time has begun, or the events show that it has not.
const REFUSED_WITHIN: Duration = Duration::from_secs(2);

/// A client of one server. Clones share connections, password and event streams.
///
/// Requests that change nothing are repeated if their connection broke; others only if they were never sent.
#[derive(Debug, Clone)]
pub struct Client {
    transport: Arc<Transport>,
    counters: Counters,
    buses: Arc<Buses>,
    /// The queues of sessions that messages are sent to.
    #[cfg(feature = "acp")]
    pub(super) queues: super::turn::MessageQueues,
}

impl Client {
    /// A client for the server at this address. Nothing is sent, and the password is not read yet.
    pub fn new(
        base_url: &str,
        password: impl PasswordSource,
        timeouts: Timeouts,
        client_info: ClientInfo,
    ) -> Result<Self, ClientError> {
        let transport = Arc::new(Transport::new(base_url, password, timeouts, &client_info)?);
        let (counters, buses) = (Counters::default(), Arc::new(Buses::new(BusSettings::default())));
        Ok(Self {
            transport,
            counters,
            buses,
            #[cfg(feature = "acp")]
            queues: Default::default(),
        })
    }

    /// The same client with other settings for its event streams. It starts without any stream.
    pub fn with_bus_settings(self, settings: BusSettings) -> Self {
        Self { buses: Arc::new(Buses::new(settings)), ..self }
    }

    /// The same client, which counts into these counters. It starts without any stream.
    pub fn with_counters(self, counters: Counters) -> Self {
        let buses = Arc::new(Buses::new(self.buses.settings().clone()));
        Self { buses, counters, ..self }
    }

    /// What this client and its clones have counted: lost streams, prompts refused as busy, unknown events.
    pub fn counts(&self) -> Counts {
        self.counters.counts()
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The address, without a slash at the end.
    pub fn base_url(&self) -> &str {
        self.transport.base_url()
    }

    /// The timeouts it was made with.
    pub fn timeouts(&self) -> &Timeouts {
        &self.transport.timeouts
    }

    /// The event stream of a directory, shared by all callers. A closed one is replaced.
    /// Nothing is read before the first subscription.
    pub fn bus(&self, directory: &Directory) -> Bus {
        self.buses.get(&self.transport, &self.counters, directory)
    }

    /// Waits until the server answers, for [`Timeouts::probes`] probes. A refused password is an error at
    /// once.
    pub async fn health_check(&self) -> Result<Health, ClientError> {
        self.health_check_with(self.transport.timeouts.probes).await
    }

    /// Like [`Client::health_check`], with at most so many probes.
    pub(super) async fn health_check_with(&self, most: u32) -> Result<Health, ClientError> {
        let call = self.transport.call(Method::GET, &["global", "health"], None);
        for _ in 1..most.min(self.transport.timeouts.probes) {
            match self.probe(&call).await {
                Err(
                    ClientError::Connect { .. } | ClientError::Timeout { .. } | ClientError::Broken { .. },
                ) => {}
                answered => return answered,
            }
            tokio::time::sleep(BETWEEN_PROBES).await;
        }
        self.probe(&call).await
    }

    async fn probe(&self, call: &Call) -> Result<Health, ClientError> {
        let answer = self.transport.send_within(call, self.transport.timeouts.probe).await?;
        read(call, &answer)
    }

    /// One health check, within this time.
    pub async fn ping(&self, within: Duration) -> Result<Health, ClientError> {
        let call = self.transport.call(Method::GET, &["global", "health"], None);
        read(&call, &self.transport.send_within(&call, within).await?)
    }

    /// The models of this directory, as `PROVIDER/MODEL`. The answer also holds keys of providers: only
    /// names are read.
    pub async fn models(&self, directory: &Directory, within: Duration) -> Result<Vec<String>, ClientError> {
        #[derive(Deserialize)]
        struct Providers {
            providers: Vec<Provider>,
        }
        #[derive(Deserialize)]
        struct Provider {
            id: String,
            models: BTreeMap<String, serde::de::IgnoredAny>,
        }
        let call = self.transport.call(Method::GET, &["config", "providers"], Some(directory));
        let Providers { providers } = read(&call, &self.transport.send_within(&call, within).await?)?;
        let names = |Provider { id, models }: Provider| {
            models.into_keys().map(move |model| format!("{id}/{model}")).collect::<Vec<_>>()
        };
        Ok(providers.into_iter().flat_map(names).collect())
    }

    // --- sessions ---

    /// The session with this id if the server has it, else a new one. Only a 404 means that it does not
    /// have it: another failure must not cost a conversation.
    pub async fn ensure_session(
        &self,
        id: Option<&str>,
        cwd: &Directory,
        title: Option<&str>,
    ) -> Result<Ensured, ClientError> {
        if let Some(id) = id {
            let at = SessionRef::new(id, cwd.clone())?;
            match self.session(&at).await {
                Ok(session) => {
                    self.check_directory(&session, cwd).await?;
                    return Ok(Ensured { at, session, created: false });
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let mut body = Map::new();
        if let Some(title) = title {
            body.insert("title".to_owned(), title.into());
        }
        let call = self.transport.call(Method::POST, &["session"], Some(cwd)).with_body(body.into());
        let session: Session = self.transport.json(&call).await?;
        let at = SessionRef::new(session.id.clone(), cwd.clone())?;
        Ok(Ensured { at, session, created: true })
    }

    /// Refuses a session of another directory. The server finds it in any directory, but would run it in
    /// the wrong one, with its events on another stream. The server resolves links, so it is asked for its
    /// form of the path.
    async fn check_directory(&self, session: &Session, asked: &Directory) -> Result<(), ClientError> {
        #[derive(Deserialize)]
        struct Paths {
            directory: String,
        }
        if session.directory == asked.as_str() {
            return Ok(());
        }
        let call = self.transport.call(Method::GET, &["path"], Some(asked));
        let Paths { directory } = self.transport.json(&call).await?;
        if session.directory == directory {
            return Ok(());
        }
        Err(ClientError::OtherDirectory {
            session: session.id.clone(),
            found: session.directory.clone(),
            asked: directory,
        })
    }

    /// A session.
    pub async fn session(&self, session: &SessionRef) -> Result<Session, ClientError> {
        self.transport.json(&self.about(Method::GET, session, &[])?).await
    }

    /// The sessions that tool calls of this session created.
    pub async fn children(&self, session: &SessionRef) -> Result<Vec<Session>, ClientError> {
        self.transport.json(&self.about(Method::GET, session, &["children"])?).await
    }

    /// Deletes a session. A session that is already gone is no error.
    pub async fn delete_session(&self, session: &SessionRef) -> Result<(), ClientError> {
        match self.transport.send(&self.about(Method::DELETE, session, &[])?).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Aborts the running turn. An idle or unknown session only emits an idle event (capture
    /// `f3-abort-idle`).
    pub async fn abort(&self, session: &SessionRef) -> Result<(), ClientError> {
        self.transport.send(&self.about(Method::POST, session, &["abort"])?).await.map(drop)
    }

    /// The sessions of this directory that are not idle.
    pub async fn status(&self, directory: &Directory) -> Result<HashMap<String, Status>, ClientError> {
        let call = self.transport.call(Method::GET, &["session", "status"], Some(directory));
        self.transport.json(&call).await
    }

    // --- messages ---

    /// All messages of a session, oldest first.
    pub async fn list_messages(&self, session: &SessionRef) -> Result<Vec<StoredMessage>, ClientError> {
        self.transport.json(&self.about(Method::GET, session, &["message"])?).await
    }

    /// The newest `limit` messages of a session, oldest first.
    pub async fn newest_messages(
        &self,
        session: &SessionRef,
        limit: u32,
    ) -> Result<Vec<StoredMessage>, ClientError> {
        let call = self.about(Method::GET, session, &["message"])?.with_query("limit", &limit.to_string());
        self.transport.json(&call).await
    }

    /// One message.
    pub async fn get_message(
        &self,
        session: &SessionRef,
        message: &str,
    ) -> Result<StoredMessage, ClientError> {
        check_id(message, "msg")?;
        self.transport.json(&self.about(Method::GET, session, &["message", message])?).await
    }

    /// Sends a prompt. Success does not prove that it runs: that shows in the events.
    pub async fn prompt_async(&self, session: &SessionRef, prompt: &Prompt) -> Result<(), ClientError> {
        let call = self.about(Method::POST, session, &["prompt_async"])?.with_body(prompt.body());
        self.transport.send(&call).await.map(drop)
    }

    /// The commands of this directory.
    pub async fn commands(
        &self,
        directory: &Directory,
        within: Duration,
    ) -> Result<Vec<CommandInfo>, ClientError> {
        let call = self.transport.call(Method::GET, &["command"], Some(directory));
        read(&call, &self.transport.send_within(&call, within).await?)
    }

    /// Starts a command, a shell command or a compaction. The server answers at its end, and goes on also
    /// without its client. Success means that it was not refused at once; the events show the rest.
    pub(super) async fn begin(
        &self,
        session: &SessionRef,
        operation: &str,
        body: Value,
    ) -> Result<(), ClientError> {
        let call = self.about(Method::POST, session, &[operation])?.with_body(body);
        let transport = Arc::clone(&self.transport);
        let request = tokio::spawn(async move { transport.send_within(&call, LONGEST_RUN).await });
        match tokio::time::timeout(REFUSED_WITHIN, request).await {
            Ok(Ok(answer)) => answer.map(drop),
            // It runs. Or its task has failed, and then the server is asked.
            Err(_) | Ok(Err(_)) => Ok(()),
        }
    }

    // --- permissions and questions ---

    /// The open permissions of this directory.
    pub async fn permissions(&self, directory: &Directory) -> Result<Vec<Pending>, ClientError> {
        self.pending("permission", directory).await
    }

    /// The open questions of this directory.
    pub async fn questions(&self, directory: &Directory) -> Result<Vec<Pending>, ClientError> {
        self.pending("question", directory).await
    }

    /// Answers a permission, with an optional message to the agent. One that is gone answers 404.
    pub async fn reply_permission(
        &self,
        directory: &Directory,
        id: &str,
        reply: PermissionReply,
        message: Option<&str>,
    ) -> Result<(), ClientError> {
        check_id(id, "per")?;
        let body = match message {
            Some(message) => json!({"reply": reply, "message": message}),
            None => json!({"reply": reply}),
        };
        self.answer(&["permission", id, "reply"], directory, Some(body)).await
    }

    /// Answers a question, with the chosen labels for each of its parts. One that is gone answers 404.
    pub async fn reply_question(
        &self,
        directory: &Directory,
        id: &str,
        answers: &[Vec<String>],
    ) -> Result<(), ClientError> {
        check_id(id, "que")?;
        self.answer(&["question", id, "reply"], directory, Some(json!({"answers": answers}))).await
    }

    /// Rejects a question. One that is gone answers 404.
    pub async fn reject_question(&self, directory: &Directory, id: &str) -> Result<(), ClientError> {
        check_id(id, "que")?;
        self.answer(&["question", id, "reject"], directory, None).await
    }

    fn about(&self, method: Method, session: &SessionRef, more: &[&str]) -> Result<Call, ClientError> {
        check_id(&session.id, "ses")?;
        let path: Vec<&str> = ["session", &session.id].into_iter().chain(more.iter().copied()).collect();
        Ok(self.transport.call(method, &path, Some(&session.directory)))
    }

    async fn pending(&self, what: &str, directory: &Directory) -> Result<Vec<Pending>, ClientError> {
        let call = self.transport.call(Method::GET, &[what], Some(directory));
        let listed: Vec<Value> = self.transport.json(&call).await?;
        Ok(listed.into_iter().filter_map(Pending::new).collect())
    }

    async fn answer(
        &self,
        path: &[&str],
        directory: &Directory,
        body: Option<Value>,
    ) -> Result<(), ClientError> {
        let mut call = self.transport.call(Method::POST, path, Some(directory));
        if let Some(body) = body {
            call = call.with_body(body);
        }
        self.transport.send(&call).await.map(drop)
    }
}
