//! A keeper in small: one session with an agent, its machine and the log it writes, and a fuse that
//! kills it.

use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use turnstream_agents::demo::{DemoAgent, DemoConfig};
use turnstream_agents::{Agent, Command, Fate, Link, Observed, OpenWork, Start, WorkingDirectory};
use turnstream_model::check::{Checker, Tail};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{
    ApprovalOutcome, Body, By, ErrorClass, Event, Permissions, QuestionOutcome, Resolution, TurnError,
};
use turnstream_model::fold::{Applied, Fold, Item, PromptStage, Turn};
use turnstream_model::id::{Counters, Key, PromptId, SessionId};
use turnstream_model::machine::{Machine, Step};
use turnstream_model::signal::{Ending, Need, Signal};
use turnstream_model::time::Time;

/// How long nothing may come before a test gives up.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long it is quiet before the machine's clock is moved to where it asks.
const QUIET: Duration = Duration::from_millis(40);

/// What the people of this session answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum People {
    Allow,
    Reject,
    RejectAndStop,
    Away,
}

pub(crate) struct Keeper {
    pub(crate) cwd: TempDir,
    pub(crate) machine: Machine,
    pub(crate) log: Vec<Event>,
    pub(crate) fold: Fold,
    pub(crate) people: People,
    /// Everything the links have said.
    pub(crate) observed: Vec<Observed>,
    /// Things that may still happen before this keeper dies.
    pub(crate) fuse: Option<usize>,
    /// Another agent than the scripted one.
    other: Option<Arc<dyn Agent>>,
    native_id: Option<String>,
    memory: Option<PathBuf>,
    script: Option<turnstream_agents::demo::DemoScript>,
    pace: Duration,
    ids: Counters,
    now: Time,
    needs: Vec<Need>,
    link: Option<Link>,
}

/// The fuse has burnt down.
#[derive(Debug)]
pub(crate) struct Dead;

pub(crate) type Alive<T = ()> = Result<T, Dead>;

impl Keeper {
    /// A session whose agent forgets everything with its link.
    pub(crate) async fn new() -> Self {
        Self::with(None, Duration::ZERO).await
    }

    pub(crate) async fn with(memory: Option<PathBuf>, pace: Duration) -> Self {
        Self::of(None, memory, pace).await
    }

    /// A session with another agent than the scripted one.
    pub(crate) async fn with_agent(agent: Arc<dyn Agent>) -> Self {
        Self::of(Some(agent), None, Duration::ZERO).await
    }

    async fn of(other: Option<Arc<dyn Agent>>, memory: Option<PathBuf>, pace: Duration) -> Self {
        let mut keeper = Self {
            cwd: tempfile::tempdir().unwrap(),
            machine: Machine::new(),
            log: Vec::new(),
            fold: Fold::new(),
            people: People::Allow,
            observed: Vec::new(),
            fuse: None,
            other,
            native_id: None,
            memory,
            script: None,
            pace,
            ids: Counters::default(),
            now: Time(1_794_700_000_000),
            needs: Vec::new(),
            link: None,
        };
        let cwd = keeper.cwd.path().display().to_string();
        let session = SessionId::from("ses_1");
        keeper
            .step(|machine, step| machine.create(session, "scripted".into(), cwd, None, None, step))
            .unwrap();
        keeper.connect(None).await;
        keeper
    }

    pub(crate) async fn with_script(script: &str) -> Self {
        let mut keeper = Self::new().await;
        keeper.script = Some(turnstream_agents::demo::DemoScript::from_json(script).unwrap());
        keeper.connect(None).await;
        keeper
    }

    pub(crate) fn agent(&self) -> Arc<dyn Agent> {
        if let Some(agent) = &self.other {
            return Arc::clone(agent);
        }
        let (memory, script) = (self.memory.clone(), self.script.clone());
        Arc::new(DemoAgent::new(DemoConfig { memory, pace: self.pace, script }))
    }

    pub(crate) async fn connect(&mut self, left: Option<OpenWork>) {
        let start = Start {
            session: SessionId::from("ses_1"),
            cwd: WorkingDirectory::open(self.cwd.path()).unwrap(),
            native_id: self.native_id.clone(),
            model: Some("model-1".to_owned()),
            mode: None,
            permissions: Permissions::Ask,
            mcp: Vec::new(),
            open_work: left,
            known: turnstream_agents::LoggedWork::default(),
            until: tokio::time::Instant::now() + Duration::from_secs(300),
        };
        self.link = Some(self.agent().connect(start).await.unwrap());
    }

    /// The keeper dies, and another takes up what is in the log.
    pub(crate) async fn restart(&mut self) {
        self.link = None;
        self.needs.clear();
        self.machine = Machine::resume(self.fold.state());
        self.ids = self.fold.state().counters;
        self.step(|machine, step| machine.begin_recovery(step));
        self.connect(Some(OpenWork::of(self.fold.state()))).await;
    }

    pub(crate) fn step<T>(&mut self, act: impl FnOnce(&mut Machine, &mut Step<'_>) -> T) -> T {
        let mut drafts = Vec::new();
        let mut step =
            Step { now: self.now, ids: &mut self.ids, drafts: &mut drafts, needs: &mut self.needs };
        let result = act(&mut self.machine, &mut step);
        for draft in drafts {
            let event = draft.at(Seq(self.log.len() as u64 + 1), self.now);
            assert_eq!(self.fold.apply(&event), Applied::Yes);
            self.log.push(event);
        }
        result
    }

    fn burn(&mut self) -> Alive {
        match &mut self.fuse {
            Some(0) => Err(Dead),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(crate) async fn tell(&mut self, command: Command) -> Alive {
        self.burn()?;
        if let Some(link) = &self.link {
            link.tell(command).await;
        }
        Ok(())
    }

    // === prompts ===

    pub(crate) async fn prompt(&mut self, text: &str) -> Alive<PromptId> {
        let content = vec![json!({"type": "text", "text": text})];
        let sent = content.clone();
        let prompt = self.step(|machine, step| machine.accept(None, sent, step)).unwrap().prompt;
        let native_id = self.agent().name_prompt(&SessionId::from("ses_1"), &prompt);
        let name = Some(native_id.clone());
        self.step(|machine, step| machine.send(&prompt, name, step)).unwrap();
        self.tell(Command::Prompt { native_id, content }).await?;
        Ok(prompt)
    }

    /// Sends a script.
    pub(crate) async fn play(&mut self, steps: Value) -> Alive<PromptId> {
        self.prompt(&json!({ "script": steps }).to_string()).await
    }

    /// Sends a script and lets it be played to the end.
    pub(crate) async fn play_out(&mut self, steps: Value) {
        self.play(steps).await.unwrap();
        self.until_quiet().await.unwrap();
    }

    // === observations ===

    /// The next observation, taken in; `None` when the link has ended.
    pub(crate) async fn observe(&mut self) -> Alive<Option<Observed>> {
        let started = tokio::time::Instant::now();
        let observed = loop {
            let Some(link) = &mut self.link else { return Ok(None) };
            match tokio::time::timeout(QUIET, link.observe()).await {
                Ok(observed) => break observed,
                Err(_) => self.pass().await?,
            }
            assert!(started.elapsed() < PATIENCE, "nothing came; the log so far:\n{}", self.show());
        };
        self.burn()?;
        match &observed {
            Some(observed) => {
                self.observed.push(observed.clone());
                self.take_in(observed.clone()).await?;
            }
            None => self.link = None,
        }
        Ok(observed)
    }

    /// An observation, if one comes before it is quiet.
    pub(crate) async fn quiet_for(&mut self, while_quiet: Duration) -> Option<Observed> {
        let link = self.link.as_mut()?;
        tokio::time::timeout(while_quiet, link.observe()).await.ok().flatten()
    }

    /// Nothing came for a while: the machine's clock moves to where it has something to do.
    async fn pass(&mut self) -> Alive {
        if let Some(deadline) = self.machine.deadline() {
            self.now = self.now.max(deadline);
            self.step(|machine, step| machine.tick(step));
            self.fetch().await?;
        }
        Ok(())
    }

    async fn take_in(&mut self, observed: Observed) -> Alive {
        self.now = self.now.plus_millis(1);
        match observed {
            Observed::Signal(signal) => {
                let asked = match &signal {
                    Signal::Ask { key, .. } | Signal::Question { key, .. } => Some(key.clone()),
                    _ => None,
                };
                self.step(|machine, step| machine.observe(signal, step));
                if let Some(key) = asked {
                    self.answer(&key, self.people).await?;
                }
                self.fetch().await
            }
            Observed::Fate { native_id, fate } => self.settle_prompt(&native_id, fate).await,
            Observed::CaughtUp => {
                self.step(|machine, step| machine.end_recovery(step));
                Ok(())
            }
            Observed::Away(_) | Observed::Back => Ok(()),
        }
    }

    async fn settle_prompt(&mut self, native_id: &str, fate: Fate) -> Alive {
        let queued = self.fold.state().queue.iter();
        let Some(prompt) = queued.clone().find(|prompt| prompt.native_id.as_deref() == Some(native_id))
        else {
            return Ok(());
        };
        assert_eq!(prompt.state, PromptStage::Sent);
        let (id, content) = (prompt.prompt.clone(), prompt.content.clone());
        match fate {
            Fate::Taken => Ok(()),
            Fate::NeverSeen => self.tell(Command::Prompt { native_id: native_id.to_owned(), content }).await,
            Fate::Unknown => {
                let error = TurnError::new(ErrorClass::AgentExited, "nobody knows whether it ran");
                self.step(|machine, step| machine.end_prompt(&id, Ending::lost(error), step)).unwrap();
                Ok(())
            }
        }
    }

    async fn fetch(&mut self) -> Alive {
        for need in std::mem::take(&mut self.needs) {
            self.tell(Command::Fetch(need)).await?;
        }
        Ok(())
    }

    /// Answers an ask or a question as these people do; one that the log has an answer to gets that again.
    pub(crate) async fn answer(&mut self, key: &Key, people: People) -> Alive {
        let state = self.fold.state();
        let native_id = Some(key.as_str());
        if let Some(ask) = state.approvals.iter().find(|ask| ask.native_id.as_deref() == native_id).cloned() {
            let (outcome, option) = match (ask.outcome, people) {
                (Some(outcome), _) => (outcome, ask.option.clone()),
                (None, People::Allow) => (ApprovalOutcome::AllowOnce, Some("allow".to_owned())),
                (None, People::Reject) => (ApprovalOutcome::Reject, Some("reject".to_owned())),
                (None, People::RejectAndStop) => (ApprovalOutcome::Reject, Some("stop".to_owned())),
                (None, People::Away) => return Ok(()),
            };
            if ask.outcome.is_none() {
                let resolution =
                    Resolution { option: option.clone(), ..Resolution::new(outcome, By::Client) };
                self.step(|machine, step| machine.resolve(&ask.approval, resolution, step)).unwrap();
            }
            let key = key.clone();
            return self.tell(Command::Approve { key, outcome, option, message: None }).await;
        }
        let asked = state.questions.iter().find(|asked| asked.native_id.as_deref() == native_id);
        let asked = asked.unwrap().clone();
        let outcome = match (asked.outcome, people) {
            (Some(outcome), _) => outcome,
            (None, People::Allow) => QuestionOutcome::Answered,
            (None, People::Reject | People::RejectAndStop) => QuestionOutcome::Rejected,
            (None, People::Away) => return Ok(()),
        };
        let answers =
            json!({"0": ["yes"]}).as_object().cloned().filter(|_| outcome == QuestionOutcome::Answered);
        if asked.outcome.is_none() {
            let given = answers.clone();
            let id = asked.question;
            self.step(|machine, step| machine.answer(&id, outcome, given, None, step)).unwrap();
        }
        self.tell(Command::Answer { key: key.clone(), outcome, answers }).await
    }

    /// Takes in what comes until nothing is open, or the link has ended.
    pub(crate) async fn until_quiet(&mut self) -> Alive {
        while !self.machine.is_quiet() && self.link.is_some() {
            self.observe().await?;
        }
        Ok(())
    }

    /// Takes in what comes until there is one that fits.
    pub(crate) async fn until(&mut self, fits: impl Fn(&Observed) -> bool) -> Observed {
        loop {
            let observed = self.observe().await.unwrap().expect("the link ended");
            if fits(&observed) {
                return observed;
            }
        }
    }

    pub(crate) async fn until_signal(&mut self, fits: impl Fn(&Signal) -> bool) {
        self.until(|observed| matches!(observed, Observed::Signal(signal) if fits(signal))).await;
    }

    pub(crate) async fn stop(&mut self) {
        self.link.take().unwrap().stop(PATIENCE).await;
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.link.is_some()
    }

    // === judgement ===

    #[track_caller]
    pub(crate) fn assert_lawful(&self, tail: Tail) {
        let mut checker = Checker::new();
        for event in &self.log {
            checker.line(&event.to_json());
        }
        let report = checker.finish(tail);
        assert!(report.violations.is_empty(), "{:#?}\n{}", report.violations, self.show());
    }

    pub(crate) fn show(&self) -> String {
        self.log.iter().map(|event| event.to_json() + "\n").collect()
    }

    pub(crate) fn turns(&self) -> &[Turn] {
        &self.fold.state().turns
    }

    pub(crate) fn items(&self) -> &[Item] {
        &self.fold.state().items
    }

    /// The only turn, judged.
    #[track_caller]
    pub(crate) fn turn(&self) -> &Turn {
        self.assert_lawful(Tail::Settled);
        assert_eq!(self.turns().len(), 1, "{}", self.show());
        &self.turns()[0]
    }

    pub(crate) fn count(&self, r#type: &str) -> usize {
        self.log.iter().filter(|event| event.draft.body.type_name() == r#type).count()
    }

    pub(crate) fn notices(&self) -> Vec<&str> {
        let notices = self.log.iter().filter_map(|event| match &event.draft.body {
            Body::Notice { code, .. } => Some(code.as_str()),
            _ => None,
        });
        notices.collect()
    }

    pub(crate) fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.cwd.path().join(name)).ok()
    }
}
