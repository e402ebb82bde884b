//! Coming back: what the agent tells a keeper of what the last one left open, and where it goes on.

use super::memory::{End, Progress, Record};
use super::player::{Played, Player};
use crate::agent::Left;
use crate::link::{Fate, Observed};
use std::sync::Arc;
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::signal::{Ending, Signal, Truth};

impl Player {
    /// Finds out what is still to be played, and tells again what ended while nobody listened.
    pub(super) async fn take_up(
        &mut self,
        left: Option<Left>,
        model: Option<String>,
        mode: Option<String>,
    ) -> Played {
        self.changed(model, mode).await?;
        let open = self.open_run(left.as_ref());
        let runs = self.memory.runs().to_vec();
        for progress in runs {
            let id = &progress.run.id;
            let is_wanted = open.as_ref() == Some(id)
                || left
                    .as_ref()
                    .is_some_and(|left| left.prompts.iter().any(|prompt| names(&progress, prompt)));
            match (is_wanted, &progress.end) {
                (true, Some(_)) => {
                    self.play(Arc::clone(&progress.run)).await?;
                    for signal in self.scene.retold() {
                        self.observer.signal(signal).await?;
                    }
                }
                (true, None) => self.queue.push_back(progress.run),
                (false, Some(_)) => {}
                // Its keeper has settled it without us.
                (false, None) => {
                    let run = id.clone();
                    self.memory.note(Record::Ended { run, end: End::Cancelled }).await?;
                }
            }
        }
        if let Some(left) = &left
            && left.turn.is_some()
            && open.is_none()
        {
            let error = TurnError::new(
                ErrorClass::AgentExited,
                "the scripted agent remembers nothing of this turn: it ended with the gateway",
            );
            let native_id = left.turn_native_id.clone();
            self.observer.signal(Signal::TurnDone { native_id, ending: Ending::lost(error) }).await?;
        }
        self.owed = left;
        if self.queue.is_empty() {
            self.catch_up().await?;
        }
        Ok(())
    }

    /// Says what is left to say before a keeper that came back has everything.
    pub(super) async fn catch_up(&mut self) -> Played {
        self.live = true;
        let Some(left) = self.owed.take() else { return Ok(()) };
        for native_id in &left.prompts {
            let fate = match self.memory.run(native_id) {
                Some(_) => Fate::Taken,
                None if self.memory.is_durable() => Fate::NeverSeen,
                None => Fate::Unknown,
            };
            self.observer.observed(Observed::Fate { native_id: native_id.clone(), fate }).await?;
        }
        if let Some(turn) = &left.turn {
            let is_running = self
                .open_run(Some(&left))
                .is_some_and(|open| self.run.as_ref().is_some_and(|run| run.id == open));
            let truth = if is_running { Truth::Busy } else { Truth::Idle };
            self.observer.signal(Signal::Truth { turn: turn.clone(), truth }).await?;
        }
        self.observer.observed(Observed::CaughtUp).await?;
        Ok(())
    }

    /// The run of the turn that was left open, if it is remembered.
    fn open_run(&self, left: Option<&Left>) -> Option<String> {
        let left = left.filter(|left| left.turn.is_some())?;
        let is_it = |progress: &&Progress| match &left.turn_native_id {
            Some(native_id) => *native_id == progress.run.id,
            None => progress.began.is_some() && progress.end.is_none(),
        };
        self.memory.runs().iter().find(is_it).map(|progress| progress.run.id.clone())
    }
}

/// True when the run is for that prompt, or merged it into its turn.
fn names(progress: &Progress, prompt: &str) -> bool {
    progress.run.id == prompt || progress.began.iter().flatten().any(|named| named == prompt)
}
