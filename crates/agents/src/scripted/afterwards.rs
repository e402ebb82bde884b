//! What comes after the end of a turn: late news of it, background work, and turns that nobody here asked for.

use super::act::{Background, Foreign, Late, LateAt, LateNews, Wake};
use super::memory::{Plan, Record, Run};
use super::player::{Played, Player};
use super::scene::{delta, ended, item};
use super::steps::Place;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use turnstream_model::event::{Field, ItemKind, ItemState, Origin, Role, StopReason, Tool, ToolStatus};
use turnstream_model::signal::{Ending, Signal};

/// What is to come. It dies with the link, unless the turn that planned it is played on by the next one.
#[derive(Default)]
pub(super) struct Afterwards {
    /// Planned by the turn that runs.
    planned: Vec<Planned>,
    /// To be done when it is time and no turn runs.
    waiting: Vec<(Instant, Deed)>,
    /// To be said as soon as the next turn has begun.
    next_turn: Vec<Signal>,
}

struct Planned {
    at: LateAt,
    after: Duration,
    deed: Deed,
}

enum Deed {
    Say(Vec<Signal>),
    Play(Box<Run>),
}

impl Afterwards {
    /// The turn is over: its plans are on their way. A turn that is only told again has none: they were carried out.
    pub(super) fn turn_ended(&mut self, is_live: bool) {
        let planned = std::mem::take(&mut self.planned);
        if !is_live {
            return;
        }
        for Planned { at, after, deed } in planned {
            match (at, deed) {
                (LateAt::NextTurn, Deed::Say(signals)) => self.next_turn.extend(signals),
                (_, deed) => self.waiting.push((Instant::now() + after, deed)),
            }
        }
        self.waiting.sort_by_key(|(due, _)| *due);
    }

    /// When there is something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.first().map(|(due, _)| *due)
    }

    fn take_due(&mut self) -> Option<Deed> {
        (self.due()? <= Instant::now()).then(|| self.waiting.remove(0).1)
    }

    fn plan(&mut self, at: LateAt, after_ms: u64, deed: Deed) {
        self.planned.push(Planned { at, after: Duration::from_millis(after_ms), deed });
    }
}

impl Player {
    /// Does one thing whose time has come; false when there is none.
    pub(super) async fn do_what_is_due(&mut self) -> Played<bool> {
        match self.afterwards.take_due() {
            None => Ok(false),
            Some(Deed::Say(signals)) => {
                for signal in signals {
                    self.observer.signal(signal).await?;
                }
                Ok(true)
            }
            Some(Deed::Play(run)) => {
                let run = *run;
                self.memory.note(Record::Run(run.clone())).await?;
                self.play(Arc::new(run)).await?;
                Ok(true)
            }
        }
    }

    pub(super) async fn say_late_news_of_the_last_turn(&mut self) -> Played {
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
        self.afterwards.plan(late.at, late.after_ms, Deed::Say(signal.into_iter().collect()));
        Ok(())
    }

    pub(super) fn plan_wake(&mut self, place: &Place, wake: &Wake) -> Played {
        let id = place.key("").as_str().to_owned();
        let plan = Plan::Script(wake.steps.clone());
        let run = Run { id, origin: Origin::Agent, said: None, plan };
        self.afterwards.plan(LateAt::AfterEnd, wake.after_ms, Deed::Play(Box::new(run)));
        Ok(())
    }

    pub(super) fn plan_foreign(&mut self, place: &Place, foreign: &Foreign) -> Played {
        let id = place.key("").as_str().to_owned();
        let plan = Plan::Script(foreign.steps.clone());
        let run = Run { id, origin: Origin::Foreign, said: Some(foreign.prompt.clone()), plan };
        self.afterwards.plan(LateAt::AfterEnd, foreign.after_ms, Deed::Play(Box::new(run)));
        Ok(())
    }

    /// A subagent that goes on: what it writes is below the last tool call, and in no turn.
    pub(super) fn plan_background(&mut self, place: &Place, background: &Background) -> Played {
        if let Some(parent) = self.scene.last_tool() {
            let key = place.key("");
            let signals = vec![
                item(&key, ItemKind::Message, Some(Role::Assistant), Some(parent)),
                delta(&key, Field::Text, &background.text),
                ended(&key, ItemState::Completed),
            ];
            self.afterwards.plan(LateAt::AfterEnd, background.after_ms, Deed::Say(signals));
        }
        Ok(())
    }
}
