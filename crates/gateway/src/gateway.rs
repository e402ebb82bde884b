//! The entry point for clients: finds or starts the keeper of a session and passes the request on.

use crate::budget::BudgetChange;
use crate::delete::Deletions;
use crate::disk_failure;
use crate::error::{OpenError, RequestError};
use crate::event_counts::EventCounters;
use crate::import;
use crate::keeper::{Crowd, Handle, Keeper, Restarts};
use crate::key_ids::KeyIds;
use crate::limits::Limit;
use crate::live_agents::LiveAgents;
use crate::mcp_store::McpStore;
use crate::provider_requests::ProviderRequests;
use crate::redactor::{Prompts, UserInput, refuse_secret};
use crate::refusals::Refusals;
use crate::request::{
    AnswerQuestion, Change, ClientRequest, NewPrompt, Request, ResolveApproval, SessionInfo,
};
use crate::retention::{self, Round};
use crate::search;
use crate::session_states::{SessionEntry, SessionStates, SessionWatcher};
use crate::settings::{Settings, TextLengths};
use crate::short_texts::ShortTexts;
use crate::start;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::AbortHandle;
use turnstream_adapter::{Agent, Description};
use turnstream_log::{Attempts, Follower, Log, Options};
use turnstream_model::Chain;
use turnstream_model::cursor::Cursor;
use turnstream_model::event::{Actor, ResumeAs};
use turnstream_model::fold::Snapshot;
use turnstream_model::id::{ApprovalId, PromptId, QuestionId, SessionId};
use turnstream_model::machine::{Accepted, Cancel, Cancelled};

/// How often a request is passed on again when it meets a keeper that is ending.
const TRIES: usize = 16;

/// The running system. Cloning shares it.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
    /// The client that uses this handle.
    actor: Option<Actor>,
}

/// State shared by keepers and requests.
pub(crate) struct Shared {
    pub(crate) log: Log,
    pub(crate) settings: Settings,
    pub(crate) states: Arc<SessionStates>,
    pub(crate) counters: Arc<EventCounters>,
    agents: BTreeMap<String, Arc<dyn Agent>>,
    keepers: Mutex<HashMap<SessionId, Handle>>,
    /// The tasks of keepers, by the keepers' numbers.
    tasks: Mutex<HashMap<u64, AbortHandle>>,
    pub(crate) restarts: Restarts,
    pub(crate) live_agents: Arc<LiveAgents>,
    pub(crate) crowd: Crowd,
    pub(crate) refusals: Refusals<Limit>,
    creating: tokio::sync::Mutex<()>,
    pub(crate) key_ids: KeyIds,
    pub(crate) searching: Arc<Semaphore>,
    importing: tokio::sync::Mutex<()>,
    pub(crate) provider_requests: ProviderRequests,
    pub(crate) mcp: McpStore,
    data: PathBuf,
    closing: AtomicBool,
    pub(crate) deletions: Deletions,
    pub(crate) rounds: watch::Sender<Round>,
}

impl Gateway {
    /// Opens the data directory. Sessions that a crash left open are recovered in the background, while the
    /// gateway already answers.
    pub async fn open(
        data: &Path,
        settings: Settings,
        agents: BTreeMap<String, Arc<dyn Agent>>,
    ) -> Result<Self, OpenError> {
        Self::open_with_ledger(data, settings, agents, None).await
    }

    /// The same, with the ledger of requests to model providers. The gateway removes what is old or belongs
    /// to a deleted session, and closes it.
    pub async fn open_with_ledger(
        data: &Path,
        settings: Settings,
        agents: BTreeMap<String, Arc<dyn Agent>>,
        ledger: Option<Attempts>,
    ) -> Result<Self, OpenError> {
        let options = Options { debounce: settings.debounce, ..Options::default() };
        let opened = Log::open(data, &options)?;
        // The directory is locked by now, so no other gateway imports into it.
        import::remove_leftovers(data);
        let key_ids = KeyIds::open(data)?;
        let (limits, quiet_sessions) = (settings.limits, settings.quiet_sessions);
        let shared = Shared {
            log: opened.log,
            settings,
            states: Arc::new(SessionStates::new()),
            counters: Arc::new(EventCounters::new(agents.keys())),
            agents,
            keepers: Mutex::default(),
            tasks: Mutex::default(),
            restarts: Restarts::default(),
            live_agents: Arc::new(LiveAgents::new(limits.live_agents)),
            crowd: Crowd::new(quiet_sessions),
            refusals: Refusals::default(),
            creating: tokio::sync::Mutex::default(),
            key_ids,
            searching: Arc::new(Semaphore::new(search::AT_A_TIME)),
            importing: tokio::sync::Mutex::default(),
            provider_requests: ProviderRequests::new(data, ledger),
            mcp: McpStore::new(data),
            data: data.to_owned(),
            closing: AtomicBool::new(false),
            deletions: Deletions::default(),
            rounds: watch::Sender::new(Round::default()),
        };
        let gateway = Self::of(Arc::new(shared));
        let loaded = start::load_sessions(&gateway, opened.abandoned)?;
        tracing::info!(path = %data.display(), sessions = loaded, "gateway started");
        retention::start(&gateway, loaded == 0);
        Ok(gateway)
    }

    /// The same gateway for the requests of one client. The events that they make name it. A request that
    /// repeats another client's by its key is still the same request.
    pub fn on_behalf_of(&self, actor: Option<Actor>) -> Self {
        Self { shared: self.shared.clone(), actor }
    }

    /// The agents, by name.
    pub fn agents(&self) -> Vec<(String, Description)> {
        self.shared.agents.iter().map(|(name, agent)| (name.clone(), agent.describe())).collect()
    }

    /// The agents, each probed first. This takes as long as the slowest agent takes to answer.
    pub async fn probe_agents(&self) -> Vec<(String, Description)> {
        let mut looks = tokio::task::JoinSet::new();
        for (name, agent) in &self.shared.agents {
            let (name, agent) = (name.clone(), Arc::clone(agent));
            looks.spawn(async move { (name, agent.probe().await) });
        }
        let mut probed: BTreeMap<String, Description> = self.agents().into_iter().collect();
        while let Some(look) = looks.join_next().await {
            match look {
                Ok((name, description)) => drop(probed.insert(name, description)),
                // The description without a probe stays.
                Err(error) => tracing::warn!(error = %Chain(&error), "the probe of an agent failed"),
            }
        }
        probed.into_iter().collect()
    }

    /// Every session, by id. The log is read once, and not for each session.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let entries = self.shared.states.all();
        let mut heads = self.shared.log.heads().unwrap_or_else(|error| {
            tracing::warn!(error = %Chain(&error), "the sessions are read one by one");
            HashMap::new()
        });
        let info = |entry: SessionEntry| match heads.remove(&entry.id) {
            Some((generation, head)) => Some(SessionInfo { generation, head, session: entry.session }),
            // It was deleted meanwhile, or cannot be read.
            None => self.session_for_list(&entry.id),
        };
        entries.into_iter().filter_map(info).collect()
    }

    /// The greatest lengths of short texts.
    pub(crate) fn text_lengths(&self) -> &TextLengths {
        &self.shared.settings.limits.texts
    }

    /// A session for a list; `None` if it was deleted meanwhile, or cannot be read.
    pub(crate) fn session_for_list(&self, id: &SessionId) -> Option<SessionInfo> {
        match self.session(id) {
            Ok(info) => Some(info),
            Err(RequestError::UnknownSession(_)) => None,
            Err(error) => {
                tracing::warn!(session = %id, error = %Chain(&error), "a session is missing from a list");
                None
            }
        }
    }

    /// One session.
    pub fn session(&self, id: &SessionId) -> Result<SessionInfo, RequestError> {
        let session = self.shared.states.get(id).ok_or_else(|| RequestError::UnknownSession(id.clone()))?;
        let (generation, head) = self.shared.log.head(id).map_err(RequestError::of_read)?;
        Ok(SessionInfo { generation, head, session })
    }

    /// Adds a prompt to the queue. It is durable when this returns.
    pub async fn prompt(&self, id: &SessionId, prompt: NewPrompt) -> Result<Accepted, RequestError> {
        self.shared.refusals.note(self.accept(id, prompt).await)
    }

    async fn accept(&self, id: &SessionId, prompt: NewPrompt) -> Result<Accepted, RequestError> {
        prompt.check_lengths(self.text_lengths())?;
        prompt.budget.check()?;
        let prompt = self.redacted(id, prompt);
        // With a key it may repeat an accepted prompt, which the keeper knows.
        if prompt.key.is_none() {
            self.refuse_if_degraded()?;
        }
        match self.ask(id, |reply| Request::Prompt(prompt.clone(), reply)).await {
            Err(error) => self.kept_prompt(id, &prompt, error).await,
            accepted => accepted,
        }
    }

    /// Removes a waiting prompt from the queue.
    pub async fn withdraw(&self, id: &SessionId, prompt: &PromptId) -> Result<(), RequestError> {
        self.refuse_if_degraded()?;
        self.ask(id, |reply| Request::Withdraw(prompt.clone(), reply)).await
    }

    /// Asks the agent to stop a turn, a prompt, or whatever is open or sent. The cancel is durable when this
    /// returns: after a crash the agent is asked again. The turn ends later, with an event of its own.
    pub async fn cancel(&self, id: &SessionId, what: Cancel) -> Result<Cancelled, RequestError> {
        self.ask(id, |reply| Request::Cancel(what.clone(), reply)).await
    }

    /// Answers an approval; the first answer wins.
    pub async fn resolve(
        &self,
        id: &SessionId,
        approval: &ApprovalId,
        answer: ResolveApproval,
    ) -> Result<(), RequestError> {
        self.shared.refusals.note(answer.check_lengths(self.text_lengths()))?;
        let answer = self.redacted(id, answer);
        if answer.key.is_none() {
            self.refuse_if_degraded()?;
        }
        match self.ask(id, |reply| Request::Resolve(approval.clone(), answer.clone(), reply)).await {
            Err(error) => self.settled_approval(id, approval, &answer, error).await,
            Ok(()) => Ok(()),
        }
    }

    /// Answers a question; the first answer wins.
    pub async fn answer(
        &self,
        id: &SessionId,
        question: &QuestionId,
        answer: AnswerQuestion,
    ) -> Result<(), RequestError> {
        self.shared.refusals.note(answer.check_lengths(self.text_lengths()))?;
        let answer = self.redacted(id, answer);
        if answer.key.is_none() {
            self.refuse_if_degraded()?;
        }
        match self.ask(id, |reply| Request::Answer(question.clone(), answer.clone(), reply)).await {
            Err(error) => self.settled_question(id, question, &answer, error).await,
            Ok(()) => Ok(()),
        }
    }

    /// Changes title, model, mode or permissions.
    pub async fn change(&self, id: &SessionId, mut change: Change) -> Result<SessionInfo, RequestError> {
        self.shared.refusals.note(change.check_lengths(self.text_lengths()))?;
        self.refuse_if_degraded()?;
        let rules = &self.shared.settings.redaction;
        refuse_secret("model", change.model.as_deref(), rules)?;
        refuse_secret("mode", change.mode.as_deref(), rules)?;
        change.unattended.check()?;
        change.redact(rules);
        if let Some(session) = self.shared.states.get(id) {
            // The agent reads its configuration there. Without a directory it is not asked.
            if let Ok(cwd) = self.settings().open_directory(Path::new(&session.cwd)) {
                self.check_model(&session.agent, change.model.as_deref(), cwd.path()).await?;
            }
        }
        self.ask(id, |reply| Request::Change(change.clone(), reply)).await?;
        self.session(id)
    }

    /// Changes the caps of a session. The change is durable when this returns.
    pub async fn set_budget(
        &self,
        id: &SessionId,
        change: BudgetChange,
    ) -> Result<SessionInfo, RequestError> {
        change.check()?;
        self.refuse_if_degraded()?;
        self.ask(id, |reply| Request::Budget(change.clone(), reply)).await?;
        self.session(id)
    }

    /// Continues a failed turn now, of a session that waits for that. The prompt is durable when this
    /// returns.
    pub async fn wake_parked(&self, id: &SessionId) -> Result<Accepted, RequestError> {
        self.refuse_if_degraded()?;
        self.ask(id, Request::Wake).await
    }

    /// Chooses how a session goes on that its agent has forgotten. The choice is durable when this returns. A
    /// repeated choice changes nothing.
    pub async fn resume(&self, id: &SessionId, choice: ResumeAs) -> Result<SessionInfo, RequestError> {
        self.refuse_if_degraded()?;
        self.ask(id, |reply| Request::Resume(choice, reply)).await?;
        self.session(id)
    }

    /// Ends a session. Its log stays, and it cannot be continued.
    pub async fn end(&self, id: &SessionId, reason: &str) -> Result<(), RequestError> {
        self.refuse_if_degraded()?;
        self.ask(id, |reply| Request::End(reason.to_owned(), reply)).await
    }

    /// The fold of a session at its head.
    pub async fn snapshot(&self, id: &SessionId) -> Result<Snapshot, RequestError> {
        let (log, id) = (self.shared.log.clone(), id.clone());
        let read = tokio::task::spawn_blocking(move || log.snapshot(&id));
        let snapshot = read.await.map_err(RequestError::log)?;
        snapshot.map_err(RequestError::of_read)
    }

    /// Follows the log of a session.
    pub fn follow(&self, id: &SessionId, cursor: &Cursor) -> Result<Follower, RequestError> {
        self.shared.log.follow(id, cursor).map_err(RequestError::of_read)
    }

    /// Follows the states of all sessions.
    pub fn watch(&self) -> SessionWatcher {
        SessionWatcher::new(self.shared.states.clone())
    }

    /// Follows the rounds of retention that removed something or failed.
    pub fn watch_retention(&self) -> watch::Receiver<Round> {
        self.shared.rounds.subscribe()
    }

    /// How many keepers run.
    pub fn awake(&self) -> usize {
        self.shared.keepers().len()
    }

    /// A user's input as it will be appended and sent to the agent.
    fn redacted<T: UserInput>(&self, id: &SessionId, mut input: T) -> T {
        // A request for an unknown session is refused later.
        let prompts = self.shared.states.get(id).map_or(Prompts::Redacted, |session| Prompts::of(&session));
        match prompts {
            Prompts::Redacted => input.redact(&self.shared.settings.redaction),
            Prompts::AsTheyAre => {}
        }
        input
    }

    /// Passes a request on to the session's keeper, which is started if none runs.
    pub(crate) async fn ask<T>(
        &self,
        id: &SessionId,
        request: impl Fn(oneshot::Sender<Result<T, RequestError>>) -> Request,
    ) -> Result<T, RequestError> {
        for _ in 0..TRIES {
            self.refuse_if_closing()?;
            let keeper = self.keeper(id)?;
            let (reply, answer) = oneshot::channel();
            let request = ClientRequest { actor: self.actor.clone(), request: request(reply) };
            if keeper.send(request).await
                && let Ok(answer) = answer.await
            {
                return answer;
            }
            // The keeper ended before it took the request; the next round starts another.
        }
        Err(RequestError::log(format!("the keeper of session {id} ended {TRIES} times in a row")))
    }

    /// The keeper of a session; started if none runs.
    pub(crate) fn keeper(&self, id: &SessionId) -> Result<Handle, RequestError> {
        if self.shared.states.get(id).is_none() || self.shared.deletions.is_under_way(id) {
            return Err(RequestError::UnknownSession(id.clone()));
        }
        self.shared.wake(id).ok_or(RequestError::Closing)
    }

    pub(crate) fn refuse_if_closing(&self) -> Result<(), RequestError> {
        if self.shared.is_closing() { Err(RequestError::Closing) } else { Ok(()) }
    }

    pub(crate) fn refuse_if_degraded(&self) -> Result<(), RequestError> {
        disk_failure::current(&self.shared.log).map_or(Ok(()), |failure| Err(failure.refused()))
    }

    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        Self { shared, actor: None }
    }

    pub(crate) fn actor(&self) -> Option<Actor> {
        self.actor.clone()
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    pub(crate) fn log(&self) -> &Log {
        &self.shared.log
    }

    pub(crate) fn event_counters(&self) -> &EventCounters {
        &self.shared.counters
    }

    pub(crate) fn states(&self) -> &SessionStates {
        &self.shared.states
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    pub(crate) fn creating(&self) -> &tokio::sync::Mutex<()> {
        &self.shared.creating
    }

    pub(crate) fn importing(&self) -> &tokio::sync::Mutex<()> {
        &self.shared.importing
    }

    /// The data directory.
    pub(crate) fn data(&self) -> &Path {
        &self.shared.data
    }

    pub(crate) fn agent(&self, name: &str) -> Option<Arc<dyn Agent>> {
        self.shared.agent(name)
    }
}

impl Shared {
    pub(crate) fn agent(&self, name: &str) -> Option<Arc<dyn Agent>> {
        self.agents.get(name).cloned()
    }

    /// The keeper that runs, or a new one. `None` once the gateway shuts down, and for a session that is
    /// being deleted.
    pub(crate) fn wake(self: &Arc<Self>, id: &SessionId) -> Option<Handle> {
        let mut keepers = self.keepers();
        // Under the lock, as in `register_keeper`: `begin_closing` sets the flag before it takes the
        // keepers, so none is started that would not be stopped.
        if self.is_closing() || self.deletions.is_under_way(id) {
            return None;
        }
        if let Some(keeper) = keepers.get(id).filter(|keeper| keeper.is_awake()) {
            return Some(keeper.clone());
        }
        let leaving = keepers.remove(id);
        let keeper = Keeper::wake(self.clone(), id.clone(), leaving);
        keepers.insert(id.clone(), keeper.clone());
        Some(keeper)
    }

    /// Removes the keeper of a session that is being deleted. No other will be started.
    pub(crate) fn remove_keeper(&self, id: &SessionId) -> Option<Handle> {
        self.keepers().remove(id)
    }

    /// Aborts a keeper, and its link with it.
    pub(crate) fn abort_keeper(&self, number: u64) {
        if let Some(task) = self.tasks().get(&number) {
            task.abort();
        }
    }

    /// False when the gateway shuts down: then the keeper is not registered.
    pub(crate) fn register_keeper(&self, id: &SessionId, keeper: Handle) -> bool {
        let mut keepers = self.keepers();
        let may = !self.is_closing();
        if may {
            keepers.insert(id.clone(), keeper);
        }
        may
    }

    /// From here on no keeper is started. Returns those that run.
    pub(crate) fn begin_closing(&self) -> Vec<Handle> {
        self.closing.store(true, Ordering::Release);
        self.keepers().drain().map(|(_, keeper)| keeper).collect()
    }

    /// Aborts every keeper, and its link with it, which kills its agent.
    pub(crate) fn abort_keepers(&self) {
        for task in self.tasks().values() {
            task.abort();
        }
    }

    pub(crate) fn agents(&self) -> &BTreeMap<String, Arc<dyn Agent>> {
        &self.agents
    }

    /// Remembers the task of a keeper, so that it can be aborted.
    pub(crate) fn register_task(&self, number: u64, task: AbortHandle) {
        self.tasks().insert(number, task);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Removes a keeper that has ended. A newer keeper of the session stays.
    pub(crate) fn remove_ended(&self, id: &SessionId, number: u64) {
        self.tasks().remove(&number);
        let mut keepers = self.keepers();
        if keepers.get(id).is_some_and(|keeper| keeper.number == number) {
            keepers.remove(id);
        }
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<u64, AbortHandle>> {
        // The map is valid also after a panic of its holder.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keepers(&self) -> MutexGuard<'_, HashMap<SessionId, Handle>> {
        // The map is valid also after a panic of its holder.
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
