//! What comes after the end of a turn: late news of it, background work, and turns that no prompt asked for.

use super::act::{Background, Foreign, Late, LateAt, LateNews, Wake};
use super::memory::{Plan, Record, Run};
use super::player::{Played, Player};
use super::scene::{delta, ended, item};
use super::steps::StepPlace;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use turnstream_model::event::{Field, ItemKind, ItemState, Origin, Role, StopReason, Tool, ToolStatus};
use turnstream_model::signal::{Ending, Signal};

/// Planned actions. They are lost with the link, unless the next link resumes the turn that planned them.
#[derive(Default)]
pub(super) struct Afterwards {
    /// Planned by the running turn.
    planned: Vec<Planned>,
    /// Due at a time when no turn runs.
    waiting: Vec<(Instant, Action)>,
    /// Reported as soon as the next turn has started.
    next_turn: Vec<Signal>,
}

struct Planned {
    at: LateAt,
    after: Duration,
    action: Action,
}

enum Action {
    Report(Vec<Signal>),
    Play(Box<Run>),
}

impl Afterwards {
    /// The turn has ended: schedules its plans. A turn that is only reported again has none: they were
    /// carried out.
    pub(super) fn turn_ended(&mut self, is_live: bool) {
        let planned = std::mem::take(&mut self.planned);
        if !is_live {
            return;
        }
        for Planned { at, after, action } in planned {
            match (at, action) {
                (LateAt::NextTurn, Action::Report(signals)) => self.next_turn.extend(signals),
                (_, action) => self.waiting.push((Instant::now() + after, action)),
            }
        }
        self.waiting.sort_by_key(|(due, _)| *due);
    }

    /// When the next action is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.first().map(|(due, _)| *due)
    }

    fn pop_due(&mut self) -> Option<Action> {
        (self.due()? <= Instant::now()).then(|| self.waiting.remove(0).1)
    }

    fn plan(&mut self, at: LateAt, after_ms: u64, action: Action) {
        self.planned.push(Planned { at, after: Duration::from_millis(after_ms), action });
    }
}

impl Player {
    /// Performs one due action. Returns false if there is none.
    pub(super) async fn perform_due(&mut self) -> Played<bool> {
        match self.afterwards.pop_due() {
            None => Ok(false),
            Some(Action::Report(signals)) => {
                for signal in signals {
                    self.observer.signal(signal).await?;
                }
                Ok(true)
            }
            Some(Action::Play(run)) => {
                let run = *run;
                self.memory.note(Record::Run(run.clone())).await?;
                self.play(Arc::new(run)).await?;
                Ok(true)
            }
        }
    }

    pub(super) async fn report_late_news(&mut self) -> Played {
        for signal in std::mem::take(&mut self.afterwards.next_turn) {
            self.observer.signal(signal).await?;
        }
        Ok(())
    }

    pub(super) fn plan_late(&mut self, run: &Run, late: &Late) -> Played {
        let signal = match late.what {
            LateNews::Tool => self.scene.last_tool().map(|key| {
                let (status, output) = (Some(ToolStatus::Completed), Some(json!("late")));
                Signal::ToolSeen { key, parent: None, tool: Tool { status, output, ..Tool::default() } }
            }),
            LateNews::Text => self.scene.last_text().map(|key| delta(&key, Field::Text, " (late)")),
            LateNews::Idle => Some(Signal::TurnIdle { stop_reason: None }),
            LateNews::Done => {
                let ending = Ending::completed(StopReason::EndTurn);
                Some(Signal::TurnDone { native_id: Some(run.id.clone()), ending })
            }
        };
        self.afterwards.plan(late.at, late.after_ms, Action::Report(signal.into_iter().collect()));
        Ok(())
    }

    pub(super) fn plan_wake(&mut self, place: &StepPlace, wake: &Wake) -> Played {
        let id = place.key("").as_str().to_owned();
        let plan = Plan::Script(wake.steps.clone());
        let run = Run { id, origin: Origin::Agent, said: None, plan };
        self.afterwards.plan(LateAt::AfterEnd, wake.after_ms, Action::Play(Box::new(run)));
        Ok(())
    }

    pub(super) fn plan_foreign(&mut self, place: &StepPlace, foreign: &Foreign) -> Played {
        let id = place.key("").as_str().to_owned();
        let plan = Plan::Script(foreign.steps.clone());
        let run = Run { id, origin: Origin::Foreign, said: Some(foreign.prompt.clone()), plan };
        self.afterwards.plan(LateAt::AfterEnd, foreign.after_ms, Action::Play(Box::new(run)));
        Ok(())
    }

    /// A subagent in the background: its message belongs to the last tool call, and to no turn.
    pub(super) fn plan_background(&mut self, place: &StepPlace, background: &Background) -> Played {
        if let Some(parent) = self.scene.last_tool() {
            let key = place.key("");
            let signals = vec![
                item(&key, ItemKind::Message, Some(Role::Assistant), Some(parent)),
                delta(&key, Field::Text, &background.text),
                ended(&key, ItemState::Completed),
            ];
            self.afterwards.plan(LateAt::AfterEnd, background.after_ms, Action::Report(signals));
        }
        Ok(())
    }
}
