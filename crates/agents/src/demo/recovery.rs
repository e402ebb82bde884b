//! Recovery: what the agent reports about open work, and where it goes on.

use super::memory::{End, Progress, Record};
use super::player::{Played, Player};
use std::sync::Arc;
use turnstream_adapter::OpenWork;
use turnstream_adapter::{Fate, Observed};
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::signal::{Ending, ProbedStatus, Signal};

impl Player {
    /// Finds what is still to be played, and reports again what ended without a link.
    pub(super) async fn recover(
        &mut self,
        open_work: Option<OpenWork>,
        model: Option<String>,
        mode: Option<String>,
    ) -> Played {
        self.changed(model, mode).await?;
        let open = self.open_run(open_work.as_ref());
        let runs = self.memory.runs().to_vec();
        for progress in runs {
            let id = &progress.run.id;
            let is_wanted = open.as_ref() == Some(id)
                || open_work
                    .as_ref()
                    .is_some_and(|open_work| open_work.prompts.iter().any(|prompt| names(&progress, prompt)));
            match (is_wanted, &progress.end) {
                (true, Some(_)) => {
                    self.play(Arc::clone(&progress.run)).await?;
                    for signal in self.scene.replayed() {
                        self.observer.signal(signal).await?;
                    }
                }
                (true, None) => self.queue.push_back(progress.run),
                (false, Some(_)) => {}
                // The keeper has ended it without the agent.
                (false, None) => {
                    let run = id.clone();
                    self.memory.note(Record::Ended { run, end: End::Cancelled }).await?;
                }
            }
        }
        if let Some(open_work) = &open_work
            && open_work.turn.is_some()
            && open.is_none()
        {
            let error = TurnError::new(
                ErrorClass::AgentExited,
                "the scripted agent remembers nothing of this turn: it ended with the gateway",
            );
            let native_id = open_work.turn_native_id.clone();
            self.observer.signal(Signal::TurnDone { native_id, ending: Ending::lost(error) }).await?;
        }
        self.owed = open_work;
        if self.queue.is_empty() {
            self.catch_up().await?;
        }
        Ok(())
    }

    /// Reports the fates of prompts and whether the turn runs, and then that all was reported.
    pub(super) async fn catch_up(&mut self) -> Played {
        self.live = true;
        let Some(open_work) = self.owed.take() else { return Ok(()) };
        for native_id in &open_work.prompts {
            let fate = match self.memory.run(native_id) {
                Some(_) => Fate::Taken,
                None if self.memory.is_durable() => Fate::NeverSeen,
                None => Fate::Unknown,
            };
            self.observer.observed(Observed::Fate { native_id: native_id.clone(), fate }).await?;
        }
        if let Some(turn) = &open_work.turn {
            let is_running = self
                .open_run(Some(&open_work))
                .is_some_and(|open| self.run.as_ref().is_some_and(|run| run.id == open));
            let status = if is_running { ProbedStatus::Busy } else { ProbedStatus::Idle };
            self.observer.signal(Signal::StatusProbed { turn: turn.clone(), status }).await?;
        }
        self.observer.observed(Observed::CaughtUp).await?;
        Ok(())
    }

    /// The run of the open turn, if it is remembered.
    fn open_run(&self, open_work: Option<&OpenWork>) -> Option<String> {
        let open_work = open_work.filter(|open_work| open_work.turn.is_some())?;
        let is_it = |progress: &&Progress| match &open_work.turn_native_id {
            Some(native_id) => *native_id == progress.run.id,
            None => progress.began.is_some() && progress.end.is_none(),
        };
        self.memory.runs().iter().find(is_it).map(|progress| progress.run.id.clone())
    }
}

/// True if the run is for that prompt, or merged it into its turn.
fn names(progress: &Progress, prompt: &str) -> bool {
    progress.run.id == prompt || progress.began.iter().flatten().any(|named| named == prompt)
}
