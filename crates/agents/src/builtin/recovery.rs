//! Recovery: what the agent reports about open work after a restart of the gateway, and where it goes on.

use super::journal::{End, Record};
use super::session::{Session, Worked};
use super::tools::Call;
use turnstream_adapter::{Fate, Observed, OpenWork};
use turnstream_model::event::{ErrorClass, SessionPatch, TurnError};
use turnstream_model::signal::{Ending, ProbedStatus, Signal};

impl Session {
    /// Reports what is known of open work, and queues the turns that go on.
    pub(super) async fn recover(&mut self, open_work: Option<OpenWork>) -> Worked {
        let native_id = Some(self.id.to_string());
        self.signal(Signal::Session(SessionPatch { native_id, ..SessionPatch::default() })).await?;
        let is_open = |turn: &str| {
            open_work.as_ref().is_some_and(|open| {
                open.turn_native_id.as_deref() == Some(turn) || open.prompts.iter().any(|id| id == turn)
            })
        };
        for turn in self.history.unfinished() {
            if !is_open(&turn) {
                // The keeper has ended it without the agent.
                self.note(Record::Ended { turn, end: End::Cancelled }).await?;
            } else if !self.lost_tool(&turn).await? {
                self.queue.push_back(turn);
            }
        }
        match open_work {
            Some(open_work) => self.report(open_work).await,
            None => Ok(()),
        }
    }

    /// Reports what is known of open work.
    async fn report(&mut self, open_work: OpenWork) -> Worked {
        let open = open_work.turn_native_id.clone();
        let known = open.iter().chain(&open_work.prompts).filter_map(|id| self.history.turn(id));
        let signals: Vec<Signal> = known.flat_map(|turn| self.history.signals(turn)).collect();
        for signal in signals {
            self.signal(signal).await?;
        }
        let is_running = open.as_ref().is_some_and(|open| self.queue.contains(open));
        if open_work.turn.is_some() && !is_running {
            self.lose_unknown_turn(&open_work).await?;
        }
        if let Some(next) = self.queue.front().cloned() {
            self.is_resumed = true;
            self.attempts = last_attempt(&open_work, &next);
            self.ask_again(&next).await?;
        }
        for native_id in &open_work.prompts {
            let is_known = self.history.turn(native_id).is_some();
            let fate = if is_known { Fate::Taken } else { Fate::NeverSeen };
            self.observer.observed(Observed::Fate { native_id: native_id.clone(), fate }).await?;
        }
        if let Some(turn) = open_work.turn {
            let status = if is_running { ProbedStatus::Busy } else { ProbedStatus::Idle };
            self.signal(Signal::StatusProbed { turn, status }).await?;
        }
        Ok(self.observer.observed(Observed::CaughtUp).await?)
    }

    /// Ends a turn whose tool was running when the gateway stopped. Nobody knows what the tool has done, so
    /// it is not run again, and the turn is lost.
    async fn lost_tool(&mut self, turn: &str) -> Worked<bool> {
        let Some(call) = self.history.next_call(turn).filter(|call| self.history.has_begun(&call.key)) else {
            return Ok(false);
        };
        let message = format!(
            "the gateway was stopped while the tool {} ran; whether it is done is not known",
            call.name
        );
        tracing::warn!(tool = %call.name, "a tool was running when the gateway stopped");
        self.note(Record::ToolUnknown { key: call.key }).await?;
        let end = End::Lost(TurnError::new(ErrorClass::AgentExited, message));
        self.note(Record::Ended { turn: turn.to_owned(), end }).await?;
        Ok(true)
    }

    /// Repeats the open permission, before the recovery is over.
    async fn ask_again(&mut self, turn: &str) -> Worked {
        let Some(call) = self.history.next_call(turn) else { return Ok(()) };
        match Call::parse(&call.name, &call.arguments) {
            Ok(parsed) if !call.redacted => self.ask(&call, &parsed).await.map(drop),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The log has a turn that the journal does not have. It was removed, or is another gateway's.
    async fn lose_unknown_turn(&self, open_work: &OpenWork) -> Worked {
        let native_id = open_work.turn_native_id.clone();
        if native_id.as_ref().is_some_and(|id| self.history.turn(id).is_some()) {
            return Ok(());
        }
        let message = "the journal of the built-in agent has nothing of this turn";
        let ending = Ending::lost(TurnError::new(ErrorClass::AgentExited, message));
        self.signal(Signal::TurnDone { native_id, ending }).await
    }
}

/// The number of the last attempt that the log has of a turn.
fn last_attempt(open_work: &OpenWork, turn: &str) -> u32 {
    let number = |key: &str| key.strip_prefix(turn)?.strip_prefix('/')?.parse::<u32>().ok();
    open_work.calls.iter().filter_map(|key| number(key.as_str())).max().unwrap_or(0)
}
