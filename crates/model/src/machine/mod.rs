//! The turn machine of one session. It takes signals and commands, decides what they mean, and writes event
//! drafts.
//!
//! It promises:
//!
//! - Every turn it starts ends exactly once, when an end is observed or commanded (L1).
//! - An idle ends only a turn that was seen to start (L2).
//! - Text snapshots are compared with the streamed text by content (L6).
//!
//! It keeps the open turn and a little of the last ones. The history of the session is in the fold.

mod archive;
mod attempt;
mod budget;
mod command;
mod item;
mod items;
mod observe;
mod observe_items;
mod pending_end;
mod prompts;
mod resume;
mod turn;
mod unattended;
mod unclaimed;
mod waits;

pub use command::{Accepted, Cancel, Cancelled, Inheritance, Refusal};
pub use prompts::{PromptState, SentContext};
pub use turn::OpenTurn;

use crate::event::{Body, Draft, Field, NoticeCode, Origin, SessionPatch, Status, TurnError, Unattended};
use crate::fold::{Meter, Parked};
use crate::id::{IdKind, Ids, Key, PromptId, TurnId};
use crate::signal::{Ending, Need};
use crate::time::Time;
use archive::Archive;
use item::ItemWriter;
use items::Items;
use pending_end::{Due, PendingEnd, Strength};
use prompts::Prompts;
use std::collections::VecDeque;
use turn::ClosedTurn;
use unattended::EndedBy;
use unclaimed::Unclaimed;
use waits::Waits;

/// How many ended turns are kept, so that late signals can revise their items.
const CLOSED_KEPT: usize = 4;

/// How many background items are kept before the finished ones move to the archive.
const BACKGROUND_KEPT: usize = 1_024;

/// The input and output of one step of the machine. Drafts are in the order of the log.
pub struct Step<'a> {
    /// The time of this step.
    pub now: Time,
    /// Where fresh ids come from.
    pub ids: &'a mut dyn Ids,
    /// What goes into the log.
    pub drafts: &'a mut Vec<Draft>,
    /// Facts to fetch.
    pub needs: &'a mut Vec<Need>,
}

/// The turn machine of one session.
#[derive(Default)]
pub struct Machine {
    prompts: Prompts,
    turn: Option<OpenTurn>,
    waits: Waits,
    pending_end: Option<PendingEnd>,
    background: Items,
    closed: VecDeque<ClosedTurn>,
    archive: Archive,
    unclaimed: Unclaimed,
    /// Prompts the agent refused while another turn was open.
    refused: Vec<(PromptId, TurnError)>,
    /// An error that belongs to no open turn; it explains a prompt that never started.
    stray_error: Option<TurnError>,
    session: SessionPatch,
    /// Its budget, and what it has used of it.
    meter: Option<Box<Meter>>,
    /// How it goes on after a limit or a failure.
    unattended: Unattended,
    /// Set while it waits to continue a turn.
    parked: Option<Parked>,
    /// Such a wait is over, and no other status was shown since.
    released: bool,
    status: Shown,
    retrying: Option<Status>,
    recovering: bool,
    created: bool,
    ended: bool,
}

/// The status as clients know it.
struct Shown(Status);

impl Default for Shown {
    fn default() -> Self {
        Self(Status::Idle)
    }
}

impl Machine {
    /// The machine of a new session.
    pub fn new() -> Self {
        Self::default()
    }

    /// The open turn, if there is one.
    pub fn open_turn(&self) -> Option<&TurnId> {
        self.turn.as_ref().map(OpenTurn::id)
    }

    /// True for an item that can still grow, by the agent's id of it.
    pub fn is_open(&self, item: &Key) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.items.is_open(item)) || self.background.is_open(item)
    }

    /// The text so far of an item that can still grow.
    pub fn text(&self, item: &Key, field: Field) -> Option<&str> {
        let in_turn = self.turn.as_ref().and_then(|turn| turn.items.text(item, field));
        in_turn.or_else(|| self.background.text(item, field))
    }

    /// True when a turn with this id is not the open one. Its beginning then ends the open turn.
    pub fn is_another_turn(&self, native_id: Option<&str>) -> bool {
        let open = self.turn.as_ref().and_then(OpenTurn::native_id);
        native_id.is_some()
            && open.is_some()
            && open != native_id
            && !self.closed.iter().any(|turn| turn.native_id.as_deref() == native_id)
    }

    /// How far a prompt has come, while it has no outcome.
    pub fn prompt_state(&self, prompt: &PromptId) -> Option<PromptState> {
        self.prompts.state(prompt)
    }

    /// When [`Machine::tick`] has something to do, if nothing else happens before.
    pub fn deadline(&self) -> Option<Time> {
        let pending = self.pending_end.as_ref().map(PendingEnd::until);
        [pending, self.budget_deadline()].into_iter().flatten().min()
    }

    /// Acts on deadlines that have passed.
    pub fn tick(&mut self, step: &mut Step<'_>) {
        let (Some(pending), Some(turn)) = (&mut self.pending_end, &self.turn) else { return };
        match pending.due(step.now) {
            Due::Nothing => {}
            Due::Ask => step.needs.push(Need::StatusProbe(turn.id().clone())),
            Due::End => self.end_by_idle(EndedBy::Keeper, step),
        }
    }

    // === turns ===

    /// Starts a turn if none is open: for the prompts that were sent, or else by the agent itself.
    fn ensure_turn(&mut self, step: &mut Step<'_>) {
        if self.turn.is_none() {
            let prompts = self.prompts.sent();
            let origin = if prompts.is_empty() { Origin::Agent } else { Origin::Prompt };
            self.start_turn(origin, prompts, None, step);
            // Nobody asked for this turn, and a late signal of an earlier turn looks the same. If nothing
            // follows, the agent's status is probed.
            if origin == Origin::Agent {
                self.pending_end = Some(PendingEnd::new(Strength::Missed, step.now));
            }
        }
    }

    fn start_turn(
        &mut self,
        origin: Origin,
        prompts: Vec<PromptId>,
        native_id: Option<String>,
        step: &mut Step<'_>,
    ) {
        let id = TurnId::from(step.ids.fresh(IdKind::Turn));
        let mut turn = OpenTurn::start(id.clone(), origin, prompts.clone(), native_id, step.drafts);
        for prompt in prompts {
            let taken = self.prompts.take_into_turn(&prompt, &id, step.drafts);
            turn.note_prompt(prompt, taken);
        }
        self.turn = Some(turn);
        self.pending_end = None;
        self.stray_error = None;
        self.show_status(step);
        for signal in self.unclaimed.claim_early() {
            self.observe_open(signal, step);
        }
    }

    fn end_turn(&mut self, ending: Ending, by: EndedBy, step: &mut Step<'_>) {
        let Some(turn) = self.turn.take() else { return };
        self.pending_end = None;
        self.retrying = None;
        self.report_unclaimed(&turn, step);
        let facts = turn.facts(by);
        let closed = turn.end(ending, &mut self.waits, step.drafts);
        self.park_after(&closed, &facts, step);
        self.closed.push_front(closed);
        while self.closed.len() > CLOSED_KEPT
            && let Some(oldest) = self.closed.pop_back()
        {
            self.archive_items(oldest.items);
        }
        self.show_status(step);
        for (prompt, error) in std::mem::take(&mut self.refused) {
            if self.prompts.state(&prompt) == Some(PromptState::Sent) {
                self.fail_unstarted(prompt, error, step);
            }
        }
    }

    fn end_by_idle(&mut self, by: EndedBy, step: &mut Step<'_>) {
        if let Some(turn) = &mut self.turn {
            let ending = turn.ending_by_idle();
            self.end_turn(ending, by, step);
        }
    }

    /// A prompt that the agent never started still gets a turn, so that clients see an end.
    fn fail_unstarted(&mut self, prompt: PromptId, error: TurnError, step: &mut Step<'_>) {
        self.start_turn(Origin::Prompt, vec![prompt], None, step);
        self.end_turn(Ending::failed(error), EndedBy::Keeper, step);
    }

    /// Reports text whose item the agent never introduced: it cannot be shown.
    fn report_unclaimed(&mut self, turn: &OpenTurn, step: &mut Step<'_>) {
        if let Some((items, bytes)) = self.unclaimed.give_up() {
            let message = format!(
                "{bytes} bytes of text in {items} item(s) were dropped: the agent never said what they are"
            );
            let body = Body::Notice { code: NoticeCode::Gap, message, detail: None };
            step.drafts.push(Draft { turn: Some(turn.id().clone()), ..Draft::new(body) });
        }
    }

    // === background ===

    /// Moves background items to the archive when there are many and none is open.
    fn trim_background(&mut self) {
        if self.background.open_count() == 0 && self.background.len() > BACKGROUND_KEPT {
            let items = std::mem::take(&mut self.background);
            self.archive_items(items);
        }
    }

    fn archive_items(&mut self, items: Items) {
        for (key, item) in items.into_archived() {
            self.archive.add(key, item);
        }
    }

    fn close_background(&mut self, step: &mut Step<'_>) {
        let mut log = ItemWriter { turn: None, late: false, out: step.drafts };
        self.background.end_all(true, None, &mut log);
        self.waits.close_all(None, true, step.drafts);
    }

    // === status ===

    fn show_status(&mut self, step: &mut Step<'_>) {
        let status = if self.recovering {
            Status::Recovering
        } else if self.waits.any_open() {
            Status::Waiting
        } else if let Some(retrying) = &self.retrying {
            retrying.clone()
        } else if self.turn.is_some() || self.prompts.any_sent() {
            Status::Busy
        } else if let Some(parked) = self.parked_status() {
            parked
        } else if self.keeps_status() {
            return;
        } else {
            Status::Idle
        };
        self.released = false;
        if self.status.0 != status {
            self.status = Shown(status.clone());
            step.drafts.push(Draft::new(Body::SessionStatus(status)));
        }
    }
}
