//! A session that its agent has forgotten: prompts are refused until a client chooses how it goes on. The
//! agent is never prompted as if nothing had happened.

use super::commit::{Work, report_refused};
use super::requests::refuse;
use super::{AppenderClosed, Keeper};
use crate::disk_failure;
use crate::error::RequestError;
use crate::hand_over::inherited_text;
use crate::request::Reply;
use crate::transcript::transcript;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::timeout;
use turnstream_adapter::ConnectError;
use turnstream_model::Chain;
use turnstream_model::event::{ErrorClass, NoticeCode, ResumeAs, TurnError};
use turnstream_model::fold::Session;
use turnstream_model::machine::Refusal;
use turnstream_model::signal::{Ending, Signal};
use turnstream_model::time::Time;

/// How long an agent may take to say whether it remembers a session. After that it is taken to remember: its
/// next link shows the truth.
const ASK_LIMIT: Duration = Duration::from_secs(5);

impl Keeper {
    /// The agent's id of the session, if the agent has forgotten it. A link that is up proves the contrary.
    pub(super) async fn forgotten(&mut self) -> Option<String> {
        let (agent, native_id) = (self.agent.clone()?, self.native_id()?);
        if self.connection.is_up() {
            return None;
        }
        if self.forgot.as_ref() == Some(&native_id) {
            return Some(native_id);
        }
        let (session, cwd) = (self.id.clone(), PathBuf::from(&self.session.cwd));
        match timeout(ASK_LIMIT, agent.remembers(&session, &native_id, &cwd)).await {
            Ok(true) => None,
            Ok(false) => Some(native_id),
            Err(_) => {
                tracing::warn!(after = ?ASK_LIMIT, "the agent did not say whether it remembers the session");
                None
            }
        }
    }

    /// A client chose how a forgotten session goes on.
    pub(super) async fn resume_as(
        &mut self,
        choice: ResumeAs,
        mut work: Work,
        reply: Reply<()>,
    ) -> Result<(), AppenderClosed> {
        if let Some(failure) = disk_failure::current(&self.shared.log) {
            return refuse(reply, failure.refused());
        }
        if self.machine.has_ended() {
            return refuse(reply, Refusal::SessionEnded.into());
        }
        if self.recovery.is_some() {
            return refuse(reply, RequestError::Recovering(self.id.clone()));
        }
        let agent = self.session.agent.clone();
        if self.agent.is_none() {
            let problem = "it is not in the configuration; add it to continue".to_owned();
            return refuse(reply, RequestError::AgentUnusable { agent, problem });
        }
        if self.forgotten().await.is_none() {
            let resumed = self.session.resumed.as_ref().map(|resumed| resumed.r#as);
            if resumed == Some(choice) {
                // A repeated request is answered like the first one, when that is durable.
                let mut work = Work::default();
                work.reply(reply, ());
                return self.commit(work).await;
            }
            let session = self.id.clone();
            return refuse(reply, RequestError::NotForgotten { agent, session, resumed });
        }
        // What came before has an earlier time: so the transcript is the same whenever it is made.
        let last = self.appender.stamp(Time::now());
        self.appender.stamp(last.plus_millis(1));
        if let Err(refusal) = self.step(&mut work, |machine, step| machine.resume_session(choice, step)) {
            return refuse(reply, refusal.into());
        }
        // A link that is being made is for the session that the agent has forgotten.
        self.close_link();
        work.reply(reply, ());
        turnstream_failpoint::reach("keeper.resuming");
        self.commit_now(work).await?;
        turnstream_failpoint::reach("keeper.resumed");
        self.leave_time_of_resume();
        tracing::info!(choice = choice.as_str(), "the session goes on without what its agent has forgotten");
        Ok(())
    }

    /// Later events get another time than the resume: the transcript ends there.
    pub(super) fn leave_time_of_resume(&mut self) {
        if let Some(resumed) = &self.session.resumed {
            self.appender.stamp(resumed.time.plus_millis(1));
        }
    }

    /// No link could be made, because the agent has forgotten the session since it was asked. The prompt that
    /// waits for the link fails.
    pub(super) async fn forgotten_at_connect(&mut self, error: &ConnectError) -> Result<(), AppenderClosed> {
        let message = format!("{error}; resume the session as `fresh` or as `transcript` to go on");
        let mut work = Work::default();
        let (code, detail) = (NoticeCode::Forgotten, None);
        let notice = Signal::Notice { code, message: message.clone(), detail };
        self.step(&mut work, |machine, step| machine.observe(notice, step));
        self.commit(work).await?;
        self.connect_failed(TurnError::new(ErrorClass::AgentError, message)).await
    }

    /// What the next prompt goes out with: the session's own transcript, and the items of another session.
    pub(super) fn pending_contexts(&self) -> (bool, bool) {
        let Session { resumed, from, .. } = &self.session;
        let is_resumed = resumed.as_ref().is_some_and(|resumed| resumed.pending);
        (is_resumed, from.as_ref().is_some_and(|from| from.pending || is_resumed))
    }

    /// The content of a prompt as the agent gets it. After a handover the items of the other session stand
    /// before it, and after a resume as `transcript` the conversation so far. Both are read from the log, so
    /// after a crash the same bytes are sent. A prompt that was logged as `bare` goes out as it is.
    pub(super) async fn with_transcript(&mut self, content: Vec<Value>) -> Result<Vec<Value>, RequestError> {
        let (is_resumed, inherits) = self.pending_contexts();
        let until = self.session.resumed.as_ref().filter(|_| is_resumed).map(|resumed| resumed.time);
        if (until.is_none() && !inherits) || self.session.bare_prompt {
            return Ok(content);
        }
        let (log, id) = (self.shared.log.clone(), self.id.clone());
        let read = tokio::task::spawn_blocking(move || {
            let inherited = if inherits { inherited_text(&log, &id)? } else { None };
            let own = until.map(|until| log.snapshot(&id).map(|snapshot| transcript(&snapshot.state, until)));
            Ok::<_, RequestError>([inherited, own.transpose().map_err(RequestError::of_read)?])
        });
        let texts = read.await.map_err(RequestError::log)??;
        let before = texts.into_iter().flatten().map(|text| json!({"type": "text", "text": text}));
        Ok(before.chain(content).collect())
    }

    /// A prompt could not be sent with the transcript. It fails, and the next one is tried again.
    pub(super) async fn fail_unsent(
        &mut self,
        native_id: &str,
        error: &RequestError,
    ) -> Result<(), AppenderClosed> {
        tracing::error!(error = %Chain(error), "the conversation so far cannot be read for the agent");
        let sent = self.machine.sent_prompts();
        let Some((prompt, _)) = sent.into_iter().find(|(_, name)| name.as_deref() == Some(native_id)) else {
            return Ok(());
        };
        let message = format!("the prompt was not sent: the conversation so far cannot be read: {error}");
        let ending = Ending::failed(TurnError::new(ErrorClass::Internal, message));
        let mut work = Work::default();
        let failed = self.step(&mut work, |machine, step| machine.end_prompt(&prompt, ending, step));
        report_refused(failed, "fail a prompt that was not sent");
        self.append(work.drafts, work.effects).await
    }
}
