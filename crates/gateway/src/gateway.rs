//! The one place clients come to: it finds the keeper of a session, or wakes one, and passes the request on.

use crate::board::{Board, BoardReader};
use crate::error::{OpenError, RequestError};
use crate::keeper::{Handle, Keeper};
use crate::request::{AnswerQuestion, Change, NewPrompt, Request, ResolveApproval, SessionInfo};
use crate::settings::Settings;
use crate::start;
use crate::trouble;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use turnstream_agents::{Agent, Description};
use turnstream_log::{Follower, Health, Log, Options};
use turnstream_model::cursor::Cursor;
use turnstream_model::fold::{Activity, Snapshot};
use turnstream_model::id::{ApprovalId, PromptId, QuestionId, SessionId, TurnId};
use turnstream_model::machine::{Accepted, Refusal};

/// How often a request is passed on again when it meets a keeper that is being put away.
const TRIES: usize = 16;
/// How long keepers may take to end when the gateway closes; the log needs the rest of the five seconds.
const CLOSING: Duration = Duration::from_millis(1_500);
/// How long agents may take to end what they run: time to end in order, and by force.
const STOPPING: Duration = Duration::from_millis(2_800);

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
    agents: BTreeMap<String, Arc<dyn Agent>>,
    keepers: Mutex<HashMap<SessionId, Handle>>,
    /// The tasks of keepers, by their numbers.
    tasks: Mutex<HashMap<u64, AbortHandle>>,
    creating: tokio::sync::Mutex<()>,
    closing: AtomicBool,
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
        let shared = Shared {
            log: opened.log,
            settings,
            board: Arc::new(Board::new()),
            agents,
            keepers: Mutex::default(),
            tasks: Mutex::default(),
            creating: tokio::sync::Mutex::default(),
            closing: AtomicBool::new(false),
        };
        let gateway = Self { shared: Arc::new(shared) };
        start::take_up(&gateway, opened.abandoned)?;
        Ok(gateway)
    }

    /// The configured agents, by name.
    pub fn agents(&self) -> Vec<(String, Description)> {
        self.shared.agents.iter().map(|(name, agent)| (name.clone(), agent.describe())).collect()
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
        self.refuse_if_degraded()?;
        self.ask(id, |reply| Request::Prompt(prompt.clone(), reply)).await
    }

    /// Takes a waiting prompt out of the queue.
    pub async fn withdraw(&self, id: &SessionId, prompt: &PromptId) -> Result<(), RequestError> {
        self.refuse_if_degraded()?;
        self.ask(id, |reply| Request::Withdraw(prompt.clone(), reply)).await
    }

    /// Asks the agent to stop that turn, or whichever is open. That it was asked is durable when this returns: after a
    /// crash it is asked again. The end is in the log when the turn has ended.
    pub async fn cancel(&self, id: &SessionId, turn: Option<TurnId>) -> Result<TurnId, RequestError> {
        self.ask(id, |reply| Request::Cancel(turn.clone(), reply)).await
    }

    /// Settles an approval; the first answer wins.
    pub async fn resolve(
        &self,
        id: &SessionId,
        approval: &ApprovalId,
        answer: ResolveApproval,
    ) -> Result<(), RequestError> {
        self.refuse_if_degraded()?;
        match self.ask(id, |reply| Request::Resolve(approval.clone(), answer.clone(), reply)).await {
            // It may have been settled so long ago that only the log knows.
            Err(RequestError::Refused(Refusal::UnknownApproval(_))) => {
                let approvals = self.snapshot(id).await?.state.approvals;
                let settled = approvals.into_iter().find(|ask| ask.approval == *approval);
                let approval = approval.clone();
                Err(match settled.and_then(|ask| ask.outcome) {
                    Some(outcome) => Refusal::ApprovalSettled { approval, outcome },
                    None => Refusal::UnknownApproval(approval),
                }
                .into())
            }
            answered => answered,
        }
    }

    /// Settles a question; the first answer wins.
    pub async fn answer(
        &self,
        id: &SessionId,
        question: &QuestionId,
        answer: AnswerQuestion,
    ) -> Result<(), RequestError> {
        self.refuse_if_degraded()?;
        match self.ask(id, |reply| Request::Answer(question.clone(), answer.clone(), reply)).await {
            Err(RequestError::Refused(Refusal::UnknownQuestion(_))) => {
                let questions = self.snapshot(id).await?.state.questions;
                let settled = questions.into_iter().find(|asked| asked.question == *question);
                let question = question.clone();
                Err(match settled.and_then(|asked| asked.outcome) {
                    Some(outcome) => Refusal::QuestionSettled { question, outcome },
                    None => Refusal::UnknownQuestion(question),
                }
                .into())
            }
            answered => answered,
        }
    }

    /// Changes title, model, mode or permissions.
    pub async fn change(&self, id: &SessionId, change: Change) -> Result<SessionInfo, RequestError> {
        self.refuse_if_degraded()?;
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

    /// How many keepers are awake.
    pub fn awake(&self) -> usize {
        self.keepers().len()
    }

    /// How many sessions are settling what a restart left open.
    pub fn recovering(&self) -> usize {
        self.shared.board.count(Activity::Recovering)
    }

    /// Stops every agent, keeps what is known, and gives the directory free, all within five seconds.
    /// Returns what could not be stopped.
    pub async fn close(self) -> Vec<String> {
        self.shared.closing.store(true, Ordering::Release);
        let keepers: Vec<Handle> = self.keepers().drain().map(|(_, keeper)| keeper).collect();
        let ends: Vec<_> = keepers.into_iter().map(Handle::stop).collect();
        let all = async {
            for end in ends {
                end.await;
            }
        };
        // A keeper that does not end in time is ended by force, and its link with it, which kills its agent.
        if tokio::time::timeout(CLOSING, all).await.is_err() {
            for task in self.shared.tasks().values() {
                task.abort();
            }
        }
        let left = self.stop_agents().await;
        self.shared.log.clone().close().await;
        left
    }

    /// Ends what agents run for all their sessions, each at the same time as the others.
    async fn stop_agents(&self) -> Vec<String> {
        let stop = |(name, agent): (&String, &Arc<dyn Agent>)| {
            let (name, agent) = (name.clone(), agent.clone());
            tokio::spawn(async move {
                let problem = match tokio::time::timeout(STOPPING, agent.stop()).await {
                    Ok(Ok(())) => return None,
                    Ok(Err(problem)) => problem,
                    Err(_) => format!("it did not end within {STOPPING:?}"),
                };
                Some(format!("agent {name} could not be stopped: {problem}"))
            })
        };
        let stops: Vec<_> = self.shared.agents.iter().map(stop).collect();
        let mut left = Vec::new();
        for stop in stops {
            left.extend(stop.await.unwrap_or_else(|error| Some(error.to_string())));
        }
        left
    }

    /// Passes a request on to the session's keeper, which is woken if need be.
    async fn ask<T>(
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
        if self.shared.board.get(id).is_none() {
            return Err(RequestError::UnknownSession(id.clone()));
        }
        Ok(self.shared.wake(id))
    }

    pub(crate) fn refuse_if_closing(&self) -> Result<(), RequestError> {
        if self.shared.is_closing() { Err(RequestError::Closing) } else { Ok(()) }
    }

    pub(crate) fn refuse_if_degraded(&self) -> Result<(), RequestError> {
        trouble::problem(&self.shared.log).map_or(Ok(()), |problem| Err(RequestError::Degraded(problem)))
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    pub(crate) fn log(&self) -> &Log {
        &self.shared.log
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

    pub(crate) fn agent(&self, name: &str) -> Option<Arc<dyn Agent>> {
        self.shared.agent(name)
    }

    fn keepers(&self) -> MutexGuard<'_, HashMap<SessionId, Handle>> {
        self.shared.keepers()
    }
}

impl Shared {
    pub(crate) fn agent(&self, name: &str) -> Option<Arc<dyn Agent>> {
        self.agents.get(name).cloned()
    }

    /// The keeper that is awake, or a new one.
    pub(crate) fn wake(self: &Arc<Self>, id: &SessionId) -> Handle {
        let mut keepers = self.keepers();
        if let Some(keeper) = keepers.get(id).filter(|keeper| keeper.is_awake()) {
            return keeper.clone();
        }
        let leaving = keepers.remove(id);
        let keeper = Keeper::wake(self.clone(), id.clone(), leaving);
        keepers.insert(id.clone(), keeper.clone());
        keeper
    }

    pub(crate) fn keep(&self, id: &SessionId, keeper: Handle) {
        self.keepers().insert(id.clone(), keeper);
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
