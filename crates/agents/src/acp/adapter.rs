//! The adapter task of one link: drives a conversation with one process, with the keeper on the other side.

use super::agent::Shared;
use super::calls::{Answer, Calls};
use super::conversation::{Conversation, Refusal};
use super::files::SessionFiles;
use super::process::{self, Process, StartError};
use std::sync::Arc;
use tokio::sync::mpsc;
use turnstream_adapter::{Clock, Command, Fate, LinkEnd, Observed, Observer, OpenWork, Start};
use turnstream_agent_process::Line;
use turnstream_model::Chain;
use turnstream_model::event::{ErrorClass, SessionPatch, TurnError};
use turnstream_model::signal::{Ending, Need, ProbedStatus, Signal};

/// Answers wait while the agent has more bytes than this to read.
const MOST_UNWRITTEN: usize = 32 << 20;

/// One link.
pub(super) struct Adapter {
    pub(super) shared: Arc<Shared>,
    pub(super) start: Start,
    pub(super) files: SessionFiles,
    /// `None` after a recovery, until a prompt needs it.
    pub(super) running: Option<Running>,
    pub(super) clock: Clock,
}

/// A process with a session.
pub(super) struct Running {
    pub(super) process: Process,
    pub(super) conversation: Conversation,
    pub(super) calls: Calls,
}

/// What happened in a link.
enum Happened {
    Command(Command),
    Line,
    OutputEnded,
    Written(std::io::Result<()>),
    Answer(Answer),
}

impl Adapter {
    /// Runs until the keeper drops the link, or the process is gone.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>, observer: Observer) {
        if let Some(open_work) = self.start.open_work.take()
            && self.recover(&open_work, &observer).await.is_err()
        {
            return;
        }
        while self.flush(&observer).await.is_ok() {
            let happened = tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => Happened::Command(command),
                    None => break,
                },
                happened = of_process(self.running.as_mut(), self.clock) => happened,
                () = observer.gone() => break,
            };
            match happened {
                Happened::Command(command) => {
                    if self.command(command, &observer).await.is_err() {
                        break;
                    }
                }
                // It was handed to the conversation where it was read.
                Happened::Line => {}
                Happened::OutputEnded => {
                    self.exited(&observer).await;
                    return;
                }
                Happened::Written(Ok(())) => {}
                // The end of its output follows, and says more.
                Happened::Written(Err(error)) => {
                    tracing::debug!(%error, "the agent does not read its input");
                    self.running.iter_mut().for_each(|running| running.process.close_input());
                }
                Happened::Answer((id, answer)) => {
                    self.running
                        .iter_mut()
                        .for_each(|running| running.conversation.respond(&id, answer.clone()));
                }
            }
        }
        self.finish(commands).await;
    }

    /// Reports how the open work of an earlier link ended. Its process had no pipes any more: nobody knows.
    async fn recover(&mut self, open_work: &OpenWork, observer: &Observer) -> Result<(), LinkEnd> {
        if let Err(error) = process::end_leftover(&self.files.record).await {
            tracing::warn!(error = %Chain(&error), "what an earlier gateway left cannot be ended");
        }
        if let Some(native_id) = self.start.native_id.clone() {
            let patch = SessionPatch { native_id: Some(native_id), ..SessionPatch::default() };
            observer.signal(Signal::Session(patch)).await?;
        }
        if open_work.turn.is_some() {
            let message = "the agent lost its connection to the gateway, and was ended";
            let error = TurnError::new(ErrorClass::AgentExited, message);
            let ending = Ending::lost(error);
            observer.signal(Signal::TurnDone { native_id: None, ending }).await?;
        }
        let note = self.files.note();
        for native_id in open_work.prompts.clone() {
            let fate = match &note {
                Ok(note) if note.prompt != native_id => Fate::NeverSeen,
                Ok(_) | Err(_) => Fate::Unknown,
            };
            observer.observed(Observed::Fate { native_id, fate }).await?;
        }
        if let Some(turn) = open_work.turn.clone() {
            observer.signal(Signal::StatusProbed { turn, status: ProbedStatus::Idle }).await?;
        }
        observer.observed(Observed::CaughtUp).await
    }

    /// Hands a command to the conversation. A prompt needs a process, and is noted before it is written.
    async fn command(&mut self, command: Command, observer: &Observer) -> Result<(), LinkEnd> {
        if let Command::Prompt { native_id, .. } = &command
            && let Err(refused) = self.ready_for(native_id).await
        {
            let is_forgotten = matches!(refused, StartError::Refused(Refusal::Forgotten { .. }));
            let class = if is_forgotten { ErrorClass::AgentError } else { ErrorClass::Unreachable };
            let error = TurnError::new(class, refused.to_string());
            let native_id = native_id.clone();
            observer.signal(Signal::PromptRefused { native_id, error: error.clone() }).await?;
            if is_forgotten {
                // Without a link the next prompt is refused, until a client chooses how to go on.
                observer.signal(Signal::LinkLost(error)).await?;
                return Err(LinkEnd);
            }
            return Ok(());
        }
        match &mut self.running {
            Some(running) => running.conversation.command(command, self.clock.now()),
            None => self.without_process(command, observer).await?,
        }
        Ok(())
    }

    /// A command between a recovery and the next prompt.
    async fn without_process(&mut self, command: Command, observer: &Observer) -> Result<(), LinkEnd> {
        match command {
            Command::CancelPrompt(native_id) => {
                let error = TurnError::new(ErrorClass::Cancelled, "the prompt was cancelled before it began");
                observer.signal(Signal::PromptRefused { native_id, error }).await
            }
            Command::Change { model, mode, permissions: _ } => {
                self.start.model = model.or(self.start.model.take());
                self.start.mode = mode.or(self.start.mode.take());
                Ok(())
            }
            Command::Fetch(Need::StatusProbe(turn)) => {
                observer.signal(Signal::StatusProbed { turn, status: ProbedStatus::Idle }).await
            }
            // Nothing runs, and nothing asks.
            Command::Cancel
            | Command::Approve { .. }
            | Command::Answer { .. }
            | Command::Fetch(Need::Item(_))
            | Command::Prompt { .. } => Ok(()),
        }
    }

    async fn ready_for(&mut self, prompt: &str) -> Result<(), StartError> {
        if self.running.is_none() {
            let until = self.shared.start_deadline();
            self.running = Some(self.shared.start_process(&self.start, &self.files, until).await?);
        }
        let native_id = self.running.as_ref().and_then(|running| running.conversation.native_id());
        self.files.note_prompt(native_id.unwrap_or_default(), prompt).map_err(StartError::Note)
    }

    async fn exited(&mut self, observer: &Observer) {
        let Some(mut running) = self.running.take() else { return };
        let how = running.process.exit().await;
        self.shared.ended(running.process).await;
        running.conversation.exited(TurnError::new(ErrorClass::AgentExited, how));
        while let Some(observed) = running.conversation.next_observed() {
            if observer.observed(observed).await.is_err() {
                return;
            }
        }
    }

    /// Reports observations, begins calls, and gives the process its lines.
    async fn flush(&mut self, observer: &Observer) -> Result<(), LinkEnd> {
        let Some(Running { process, conversation, calls }) = &mut self.running else { return Ok(()) };
        while let Some(observed) = conversation.next_observed() {
            let is_end = matches!(observed, Observed::Signal(Signal::TurnDone { .. }));
            observer.observed(observed).await?;
            if is_end && let Err(error) = self.files.note_answer() {
                tracing::warn!(%error, "cannot note that the agent has answered");
            }
        }
        while let Some(call) = conversation.next_call() {
            calls.serve(call);
        }
        for command in calls.take_started() {
            if let Err(error) = process.add_other(command) {
                tracing::warn!(pid = command, error = %Chain(&error), "cannot note a terminal's command");
            }
        }
        while let Some(line) = conversation.next_line() {
            process.say(&line);
        }
        Ok(())
    }

    /// Gives the process the keeper's last commands, and ends it.
    async fn finish(mut self, mut commands: mpsc::Receiver<Command>) {
        let Some(mut running) = self.running.take() else { return };
        while let Ok(command) = commands.try_recv() {
            // A prompt is not begun any more: the next link is asked about it.
            if !matches!(command, Command::Prompt { .. }) {
                running.conversation.command(command, self.clock.now());
            }
        }
        while let Some(line) = running.conversation.next_line() {
            running.process.say(&line);
        }
        drop(running.calls);
        self.shared.ended(running.process).await;
    }
}

/// The next thing that the process does. A line is handed on at once: it is in the reader's buffer.
async fn of_process(running: Option<&mut Running>, clock: Clock) -> Happened {
    let Some(Running { process, conversation, calls }) = running else {
        return std::future::pending().await;
    };
    // An agent that does not read its answers gets no more of them.
    let has_room = process.unwritten() <= MOST_UNWRITTEN;
    // Both directions at once: an agent that is blocked by its output does not read its input.
    let (lines, written, exit) = process.both_directions();
    tokio::select! {
        line = lines => match line {
            Ok(Some(Line::Whole(line))) => {
                conversation.line(line, clock.now());
                Happened::Line
            }
            Ok(Some(Line::Oversized(bytes))) => {
                conversation.oversized(bytes, clock.now());
                Happened::Line
            }
            Ok(None) => Happened::OutputEnded,
            Err(error) => {
                tracing::warn!(%error, "cannot read the output of the agent");
                Happened::OutputEnded
            }
        },
        written = written => Happened::Written(written),
        () = exit => Happened::OutputEnded,
        answer = calls.next_answer(), if has_room => Happened::Answer(answer),
    }
}
