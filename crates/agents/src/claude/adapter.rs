//! The adapter task of one link: drives a conversation with one process, with the keeper on the other side.

use super::agent::Shared;
use super::conversation::Conversation;
use super::files::{ClaudeHome, GivenPrompt, SessionFiles};
use super::leftover::{self, Leftover};
use super::process::{Running, StartError};
use super::transcript::Transcript;
use super::usage::Totals;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::mpsc;
use turnstream_adapter::{Clock, Command, Fate, LinkEnd, Observed, Observer, OpenWork, Start};
use turnstream_agent_process::Line;
use turnstream_model::Chain;
use turnstream_model::event::{ErrorClass, Outcome, TurnError};
use turnstream_model::signal::{Ending, Signal};
use turnstream_model::time::Time;

/// One link.
pub(super) struct Adapter {
    pub(super) shared: Arc<Shared>,
    pub(super) start: Start,
    pub(super) native_id: String,
    pub(super) files: SessionFiles,
    pub(super) conversation: Conversation,
    /// `None` until a prompt needs it.
    pub(super) running: Option<Running>,
    pub(super) clock: Clock,
    /// The native id is noted as used.
    pub(super) is_used: bool,
}

/// What happened in a link.
enum Happened {
    Command(Command),
    Line,
    Oversized(u64),
    OutputEnded,
    Written(std::io::Result<()>),
}

impl Adapter {
    /// Runs until the keeper drops the link, or the process is gone.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>, observer: Observer) {
        let mut early = VecDeque::new();
        // Its name of the session comes first.
        if self.flush(&observer).await.is_err() {
            return;
        }
        if let Some(open_work) = self.start.open_work.take()
            && self.recover(&open_work, &mut commands, &mut early, &observer).await.is_err()
        {
            return;
        }
        for command in early {
            if self.command(command, &observer).await.is_err() {
                return;
            }
        }
        while self.flush(&observer).await.is_ok() {
            let happened = tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => Happened::Command(command),
                    None => break,
                },
                happened = Self::of_process(self.running.as_mut(), &mut self.conversation, self.clock) => happened,
                () = observer.gone() => break,
            };
            let now = self.clock.now();
            match happened {
                Happened::Command(command) => {
                    if self.command(command, &observer).await.is_err() {
                        break;
                    }
                }
                // It was handed to the conversation where it was read.
                Happened::Line => {}
                Happened::Oversized(bytes) => self.conversation.oversized(bytes, now),
                Happened::OutputEnded => self.exited().await,
                Happened::Written(Ok(())) => {}
                // The end of its output follows, and says more.
                Happened::Written(Err(error)) => {
                    tracing::debug!(%error, "Claude Code does not read its input");
                    self.running.iter_mut().for_each(Running::close_input);
                }
            }
        }
        self.finish(commands).await;
    }

    /// The next thing that the process does. A line is handed on at once: it is in the reader's buffer.
    async fn of_process(
        running: Option<&mut Running>,
        conversation: &mut Conversation,
        clock: Clock,
    ) -> Happened {
        let Some(running) = running else { return std::future::pending().await };
        // Both directions at once: an agent that is blocked by its output does not read its input.
        let (lines, written, exit) = running.both_directions();
        tokio::select! {
            line = lines => read(line, conversation, clock),
            written = written => Happened::Written(written),
            () = exit => Happened::OutputEnded,
        }
    }

    /// Reports how the open work of an earlier link ended. A process that an earlier gateway has left goes on
    /// until its turn is over. Its answer is then in the transcript.
    async fn recover(
        &mut self,
        open_work: &OpenWork,
        commands: &mut mpsc::Receiver<Command>,
        early: &mut VecDeque<Command>,
        observer: &Observer,
    ) -> Result<(), LinkEnd> {
        let leftover = leftover::wait(&self.shared.name, &self.files, commands, early, observer).await?;
        let is_cancelled = match leftover {
            Leftover::Ended => false,
            Leftover::Cancelled => true,
            Leftover::Unknown(error) => {
                tracing::warn!(error = %Chain(&error), "what an earlier gateway left cannot be ended");
                false
            }
        };
        let recovered = match self.read_open_work(open_work.clone()).await {
            Ok(recovered) => recovered,
            Err(error) => {
                tracing::warn!(%error, "the transcript of Claude Code cannot be read");
                return lost(open_work, observer).await;
            }
        };
        self.note_use();
        for observed in recovered {
            let observed = match observed {
                // The transcript is written late, so it cannot tell of a process that was killed.
                Observed::Fate { native_id, fate: Fate::Unknown } if !self.files.may_have(&native_id) => {
                    Observed::Fate { native_id, fate: Fate::NeverSeen }
                }
                Observed::Signal(Signal::TurnDone { native_id, ending })
                    if is_cancelled && ending.outcome == Outcome::Lost =>
                {
                    Observed::Signal(Signal::TurnDone { native_id, ending: Ending::cancelled() })
                }
                observed => observed,
            };
            observer.observed(observed).await?;
        }
        if self.shared.has_forgotten(&self.files, &self.native_id) {
            // Without a link the next prompt is refused, until a client chooses how to go on.
            let message = "Claude Code has lost the transcript of the session";
            observer.signal(Signal::LinkLost(TurnError::new(ErrorClass::AgentError, message))).await?;
            return Err(LinkEnd);
        }
        Ok(())
    }

    /// What became of the open work, by the files of Claude Code.
    async fn read_open_work(&self, open: OpenWork) -> std::io::Result<Vec<Observed>> {
        let (native_id, files) = (self.native_id.clone(), self.files.clone());
        let read = move |home: &ClaudeHome| {
            let stored = home.read_session(&native_id)?;
            let transcript = Transcript::parse(&stored, files.given_prompt());
            Ok(transcript.recover(&open, files.process_end()))
        };
        self.shared.read_files(read).await
    }

    /// Hands a command to the conversation. A prompt needs a process, and is noted before it is written.
    async fn command(&mut self, command: Command, observer: &Observer) -> Result<(), LinkEnd> {
        if let Command::Prompt { native_id, .. } = &command
            && let Err(error) = self.ready_for(native_id).await
        {
            let error = TurnError::new(ErrorClass::Unreachable, error.to_string());
            let native_id = native_id.clone();
            return observer.signal(Signal::PromptRefused { native_id, error }).await;
        }
        let is_prompt = matches!(command, Command::Prompt { .. });
        self.conversation.command(command, self.clock.now());
        if let Some(running) = self.running.as_mut().filter(|_| is_prompt) {
            running.begin_prompt();
        }
        Ok(())
    }

    async fn ready_for(&mut self, prompt: &str) -> Result<(), StartError> {
        if self.running.is_none() {
            let native_id = std::mem::take(&mut self.native_id);
            self.native_id = self.shared.startable_id(&self.start.session, native_id);
            let until = self.shared.start_deadline();
            let started = self.shared.start_process(&self.start, &self.native_id, &self.files, until).await?;
            self.running = Some(started);
            self.count_from_stored_totals().await;
        }
        let (native_id, totals) = (prompt.to_owned(), self.conversation.totals());
        let given = GivenPrompt { native_id, time: Time::now(), totals };
        self.files.note_prompt(given).map_err(StartError::Note)
    }

    /// A process that resumes a session may go on with the totals of the last one.
    pub(super) async fn count_from_stored_totals(&mut self) {
        let native_id = self.native_id.clone();
        let read = move |home: &ClaudeHome| Ok(Totals::stored_in(&home.read_transcript(&native_id)?));
        match self.shared.read_files(read).await {
            Ok(totals) => self.conversation.count_from(totals.unwrap_or_default()),
            Err(error) => tracing::warn!(%error, "the transcript of Claude Code cannot be read"),
        }
    }

    async fn exited(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let how = running.exit().await;
        running.close_input();
        if running.holds_prompt()
            && let Err(error) = self.files.forget_prompt()
        {
            tracing::warn!(%error, "cannot note that a prompt never reached Claude Code");
        }
        self.shared.ended(running, &self.files).await;
        self.note_use();
        self.conversation.exited(TurnError::new(ErrorClass::AgentExited, how));
    }

    /// Reports observations, and gives the process its lines. The error says that the link has ended.
    async fn flush(&mut self, observer: &Observer) -> Result<(), LinkEnd> {
        while let Some(observed) = self.conversation.next_observed() {
            let is_end = matches!(observed, Observed::Signal(Signal::TurnDone { .. }));
            let is_last = matches!(observed, Observed::Signal(Signal::LinkLost(_)));
            observer.observed(observed).await?;
            if is_end {
                self.note_use();
            }
            if is_last {
                return Err(LinkEnd);
            }
        }
        observer.works_in_background(self.conversation.works_in_background());
        if let Some(running) = &mut self.running {
            while let Some(line) = self.conversation.next_line() {
                running.say(&line);
            }
        }
        Ok(())
    }

    /// Once Claude Code has a conversation, a missing one means that it has forgotten the session. It writes
    /// the file late: a process that is killed in its first turn leaves none.
    fn note_use(&mut self) {
        if self.is_used || self.shared.home.conversation(&self.native_id).is_none() {
            return;
        }
        self.is_used = true;
        if let Err(error) = self.files.note_use(&self.native_id) {
            tracing::warn!(%error, "cannot note that Claude Code knows the session");
        }
    }

    /// Gives the process the keeper's last commands, and ends it.
    async fn finish(mut self, mut commands: mpsc::Receiver<Command>) {
        let Some(mut running) = self.running.take() else { return };
        while let Ok(command) = commands.try_recv() {
            // A prompt is not begun any more: the next link is asked about it.
            if !matches!(command, Command::Prompt { .. }) {
                self.conversation.command(command, self.clock.now());
            }
        }
        while let Some(line) = self.conversation.next_line() {
            running.say(&line);
        }
        self.shared.ended(running, &self.files).await;
        self.note_use();
    }
}

/// Hands a line to the conversation.
fn read(line: std::io::Result<Option<Line<'_>>>, conversation: &mut Conversation, clock: Clock) -> Happened {
    match line {
        Ok(Some(Line::Whole(line))) => {
            conversation.line(line, clock.now());
            Happened::Line
        }
        Ok(Some(Line::Oversized(bytes))) => Happened::Oversized(bytes),
        Ok(None) => Happened::OutputEnded,
        Err(error) => {
            tracing::warn!(%error, "cannot read the output of Claude Code");
            Happened::OutputEnded
        }
    }
}

/// Nothing can be known of the open work.
async fn lost(open_work: &OpenWork, observer: &Observer) -> Result<(), LinkEnd> {
    for native_id in open_work.prompts.clone() {
        observer.observed(Observed::Fate { native_id, fate: Fate::Unknown }).await?;
    }
    let message = "the transcript of Claude Code cannot be read";
    observer.signal(Signal::LinkLost(TurnError::new(ErrorClass::AgentExited, message))).await
}
