//! The one place clients come to: it finds the keeper of a session, or wakes one, and passes the request on.

use crate::board::{Board, BoardReader, Stage};
use crate::delete::Deletions;
use crate::error::{OpenError, RequestError};
use crate::import;
use crate::keeper::{Handle, Keeper};
use crate::ledger::Ledger;
use crate::redactor::{Prompts, Said, refuse_secret};
use crate::request::{AnswerQuestion, Change, NewPrompt, Request, ResolveApproval, SessionInfo};
use crate::retention::{self, Round};
use crate::search;
use crate::settings::Settings;
use crate::start;
use crate::tally::{Tallies, Tally};
use crate::trouble;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::AbortHandle;
use turnstream_agents::{Agent, Counts, Description};
use turnstream_log::{Figures, Follower, Health, Log, Options, Removed};
use turnstream_model::cursor::Cursor;
use turnstream_model::fold::{Activity, Snapshot};
use turnstream_model::id::{ApprovalId, PromptId, QuestionId, SessionId};
use turnstream_model::machine::{Accepted, Cancel, Cancelled};

/// How often a request is passed on again when it meets a keeper that is being put away.
const TRIES: usize = 16;

/// The running system. Cloning shares it.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

/// What keepers and requests share.
pub(crate) struct Shared {
    pub(crate) log: Log,
    pub(crate) settings: Settings,
    pub(crate) board: Arc<Board>,
    pub(crate) tallies: Arc<Tallies>,
    agents: BTreeMap<String, Arc<dyn Agent>>,
    keepers: Mutex<HashMap<SessionId, Handle>>,
    /// The tasks of keepers, by their numbers.
    tasks: Mutex<HashMap<u64, AbortHandle>>,
    creating: tokio::sync::Mutex<()>,
    pub(crate) searching: Arc<Semaphore>,
    importing: tokio::sync::Mutex<()>,
    pub(crate) ledger: Ledger,
    data: PathBuf,
    closing: AtomicBool,
    pub(crate) deletions: Deletions,
    pub(crate) rounds: watch::Sender<Round>,
}

impl Gateway {
    /// Opens the data directory. What a crash left open is settled from here on, session by session, while the gateway
    /// already answers.
    pub async fn open(
        data: &Path,
        settings: Settings,
        agents: BTreeMap<String, Arc<dyn Agent>>,
    ) -> Result<Self, OpenError> {
        let options = Options { debounce: settings.debounce, ..Options::default() };
        let opened = Log::open(data, &options)?;
        // Ours alone now.
        import::sweep(data);
        let shared = Shared {
            log: opened.log,
            settings,
            board: Arc::new(Board::new()),
            tallies: Arc::new(Tallies::new(agents.keys())),
            agents,
            keepers: Mutex::default(),
            tasks: Mutex::default(),
            creating: tokio::sync::Mutex::default(),
            searching: Arc::new(Semaphore::new(search::AT_A_TIME)),
            importing: tokio::sync::Mutex::default(),
            ledger: Ledger::new(data),
            data: data.to_owned(),
            closing: AtomicBool::new(false),
            deletions: Deletions::default(),
            rounds: watch::Sender::new(Round::default()),
        };
        let gateway = Self { shared: Arc::new(shared) };
        start::take_up(&gateway, opened.abandoned)?;
        retention::start(&gateway);
        Ok(gateway)
    }

    /// The configured agents, by name.
    pub fn agents(&self) -> Vec<(String, Description)> {
        self.shared.agents.iter().map(|(name, agent)| (name.clone(), agent.describe())).collect()
    }

    /// The same after a look at each of them, for whoever has a moment to wait.
    pub async fn probe_agents(&self) -> Vec<(String, Description)> {
        let mut looks = tokio::task::JoinSet::new();
        for (name, agent) in &self.shared.agents {
            let (name, agent) = (name.clone(), Arc::clone(agent));
            looks.spawn(async move { (name, agent.probe().await) });
        }
        let mut probed: BTreeMap<String, Description> = self.agents().into_iter().collect();
        while let Some(look) = looks.join_next().await {
            // What is known without a look stays if one fails.
            probed.extend(look);
        }
        probed.into_iter().collect()
    }

    /// Every session, by id.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let entries = self.shared.board.all();
        entries.into_iter().filter_map(|entry| self.session(&entry.id).ok()).collect()
    }

    /// One session.
    pub fn session(&self, id: &SessionId) -> Result<SessionInfo, RequestError> {
        let session = self.shared.board.get(id).ok_or_else(|| RequestError::UnknownSession(id.clone()))?;
        let (generation, head) = self.shared.log.head(id).map_err(RequestError::of_read)?;
        Ok(SessionInfo { generation, head, session })
    }

    /// Puts a prompt into the queue. It is durable when this returns.
    pub async fn prompt(&self, id: &SessionId, prompt: NewPrompt) -> Result<Accepted, RequestError> {
        let prompt = self.redacted(id, prompt);
        // With a key it may be a repeat of one that was taken: the keeper knows.
        if prompt.key.is_none() {
            self.refuse_if_degraded()?;
        }
        match self.ask(id, |reply| Request::Prompt(prompt.clone(), reply)).await {
            Err(error) => self.kept_prompt(id, &prompt, error).await,
            accepted => accepted,
        }
    }

    /// Takes a waiting prompt out of the queue.
    pub async fn withdraw(&self, id: &SessionId, prompt: &PromptId) -> Result<(), RequestError> {
        self.refuse_if_degraded()?;
        self.ask(id, |reply| Request::Withdraw(prompt.clone(), reply)).await
    }

    /// Asks the agent to stop that turn, that prompt, or whatever is open or sent. That it was asked is durable when this
    /// returns: after a crash it is asked again. The end is in the log when the turn has ended.
    pub async fn cancel(&self, id: &SessionId, what: Cancel) -> Result<Cancelled, RequestError> {
        self.ask(id, |reply| Request::Cancel(what.clone(), reply)).await
    }

    /// Settles an approval; the first answer wins.
    pub async fn resolve(
        &self,
        id: &SessionId,
        approval: &ApprovalId,
        answer: ResolveApproval,
    ) -> Result<(), RequestError> {
        let answer = self.redacted(id, answer);
        if answer.key.is_none() {
            self.refuse_if_degraded()?;
        }
        match self.ask(id, |reply| Request::Resolve(approval.clone(), answer.clone(), reply)).await {
            Err(error) => self.settled_approval(id, approval, &answer, error).await,
            Ok(()) => Ok(()),
        }
    }

    /// Settles a question; the first answer wins.
    pub async fn answer(
        &self,
        id: &SessionId,
        question: &QuestionId,
        answer: AnswerQuestion,
    ) -> Result<(), RequestError> {
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
        self.refuse_if_degraded()?;
        let secrets = &self.shared.settings.secrets;
        refuse_secret("model", change.model.as_deref(), secrets)?;
        refuse_secret("mode", change.mode.as_deref(), secrets)?;
        change.redact(secrets);
        if let Some(session) = self.shared.board.get(id) {
            let cwd = Path::new(&session.cwd);
            self.check_model(&session.agent, change.model.as_deref(), cwd).await?;
        }
        self.ask(id, |reply| Request::Change(change.clone(), reply)).await?;
        self.session(id)
    }

    /// Ends a session for good. Its log stays.
    pub async fn end(&self, id: &SessionId, reason: &str) -> Result<(), RequestError> {
        self.refuse_if_degraded()?;
        self.ask(id, |reply| Request::End(reason.to_owned(), reply)).await
    }

    /// What a session is at its head.
    pub async fn snapshot(&self, id: &SessionId) -> Result<Snapshot, RequestError> {
        let (log, id) = (self.shared.log.clone(), id.clone());
        let read = tokio::task::spawn_blocking(move || log.snapshot(&id));
        let snapshot = read.await.map_err(|error| RequestError::Log(error.to_string()))?;
        snapshot.map_err(RequestError::of_read)
    }

    /// Follows the log of a session.
    pub fn follow(&self, id: &SessionId, cursor: &Cursor) -> Result<Follower, RequestError> {
        self.shared.log.follow(id, cursor).map_err(RequestError::of_read)
    }

    /// Follows the states of all sessions.
    pub fn watch(&self) -> BoardReader {
        BoardReader::new(self.shared.board.clone())
    }

    /// Whether what is accepted can be kept at the moment.
    pub fn health(&self) -> Health {
        self.shared.log.health()
    }

    /// What the log did since it was opened, and what is under way.
    pub fn figures(&self) -> Figures {
        self.shared.log.figures()
    }

    /// What happened in the sessions of each agent since the gateway was opened: those that are configured, and those
    /// that a session still names. Everything in it is durable.
    pub fn tallies(&self) -> BTreeMap<String, Tally> {
        self.shared.tallies.all()
    }

    /// What agents count of themselves, by name.
    pub fn counts(&self) -> BTreeMap<String, Counts> {
        let counts = |(name, agent): (&String, &Arc<dyn Agent>)| Some((name.clone(), agent.counts()?));
        self.shared.agents.iter().filter_map(counts).collect()
    }

    /// How many sessions of each agent are at which stage. Agents that are configured are there also without any.
    pub fn stages(&self) -> BTreeMap<String, BTreeMap<Stage, u64>> {
        let mut stages = self.shared.board.stages();
        for agent in self.shared.agents.keys() {
            stages.entry(agent.clone()).or_default();
        }
        stages
    }

    /// What was removed since the gateway was opened, by deletes and by retention.
    pub fn removed(&self) -> Removed {
        self.shared.log.removed()
    }

    /// Follows the rounds of retention that removed something or failed to.
    pub fn watch_retention(&self) -> watch::Receiver<Round> {
        self.shared.rounds.subscribe()
    }

    /// How many keepers are awake.
    pub fn awake(&self) -> usize {
        self.shared.keepers().len()
    }

    /// How many sessions are settling what a restart left open.
    pub fn recovering(&self) -> usize {
        self.shared.board.count(Activity::Recovering)
    }

    /// What a person said to a session, as it will be kept and sent.
    fn redacted<T: Said>(&self, id: &SessionId, mut said: T) -> T {
        // One that is not known is refused a moment later.
        let prompts = self.shared.board.get(id).map_or(Prompts::Redacted, |session| Prompts::of(&session));
        match prompts {
            Prompts::Redacted => said.redact(&self.shared.settings.secrets),
            Prompts::AsTheyAre => {}
        }
        said
    }

    /// Passes a request on to the session's keeper, which is woken if need be.
    pub(crate) async fn ask<T>(
        &self,
        id: &SessionId,
        request: impl Fn(oneshot::Sender<Result<T, RequestError>>) -> Request,
    ) -> Result<T, RequestError> {
        for _ in 0..TRIES {
            self.refuse_if_closing()?;
            let keeper = self.keeper(id)?;
            let (reply, answer) = oneshot::channel();
            if keeper.send(request(reply)).await
                && let Ok(answer) = answer.await
            {
                return answer;
            }
            // It was put away before it took the request: the next one is another.
        }
        Err(RequestError::Log(format!("the keeper of session {id} ends again and again")))
    }

    /// The keeper of a session; a new one takes up where the last one was put away.
    pub(crate) fn keeper(&self, id: &SessionId) -> Result<Handle, RequestError> {
        if self.shared.board.get(id).is_none() || self.shared.deletions.is_under_way(id) {
            return Err(RequestError::UnknownSession(id.clone()));
        }
        self.shared.wake(id).ok_or(RequestError::Closing)
    }

    pub(crate) fn refuse_if_closing(&self) -> Result<(), RequestError> {
        if self.shared.is_closing() { Err(RequestError::Closing) } else { Ok(()) }
    }

    pub(crate) fn refuse_if_degraded(&self) -> Result<(), RequestError> {
        trouble::now(&self.shared.log).map_or(Ok(()), |trouble| Err(trouble.refused()))
    }

    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    pub(crate) fn log(&self) -> &Log {
        &self.shared.log
    }

    pub(crate) fn tallies_shared(&self) -> &Tallies {
        &self.shared.tallies
    }

    pub(crate) fn board(&self) -> &Board {
        &self.shared.board
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

    /// The directory of the log.
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

    /// The keeper that is awake, or a new one; none once the gateway closes, which would not hear that it has to leave, nor
    /// for a session that is being deleted.
    pub(crate) fn wake(self: &Arc<Self>, id: &SessionId) -> Option<Handle> {
        let mut keepers = self.keepers();
        // Under the lock, as in `keep`: whoever closes says so first and takes the keepers then.
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

    /// The keeper of a session that is being deleted, if one is awake: no other will be.
    pub(crate) fn take_keeper(&self, id: &SessionId) -> Option<Handle> {
        self.keepers().remove(id)
    }

    /// Ends one keeper by force, and its link with it.
    pub(crate) fn abort_keeper(&self, number: u64) {
        if let Some(task) = self.tasks().get(&number) {
            task.abort();
        }
    }

    /// False when the gateway closes: then it is not kept.
    pub(crate) fn keep(&self, id: &SessionId, keeper: Handle) -> bool {
        let mut keepers = self.keepers();
        let may = !self.is_closing();
        if may {
            keepers.insert(id.clone(), keeper);
        }
        may
    }

    /// From here on no keeper is woken. Returns those that are awake.
    pub(crate) fn begin_closing(&self) -> Vec<Handle> {
        self.closing.store(true, Ordering::Release);
        self.keepers().drain().map(|(_, keeper)| keeper).collect()
    }

    /// Ends every keeper by force, and its link with it, which kills its agent.
    pub(crate) fn abort_keepers(&self) {
        for task in self.tasks().values() {
            task.abort();
        }
    }

    pub(crate) fn agents(&self) -> &BTreeMap<String, Arc<dyn Agent>> {
        &self.agents
    }

    /// That keeper can be ended by force.
    pub(crate) fn may_abort(&self, number: u64, task: AbortHandle) {
        self.tasks().insert(number, task);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// That keeper has left; a newer one stays.
    pub(crate) fn put_away(&self, id: &SessionId, number: u64) {
        self.tasks().remove(&number);
        let mut keepers = self.keepers();
        if keepers.get(id).is_some_and(|keeper| keeper.number == number) {
            keepers.remove(id);
        }
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<u64, AbortHandle>> {
        // A map: a panic cannot leave a change of it half done.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keepers(&self) -> MutexGuard<'_, HashMap<SessionId, Handle>> {
        // A map: a panic cannot leave a change of it half done.
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
