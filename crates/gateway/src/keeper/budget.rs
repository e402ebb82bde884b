//! The budget of a session, and the sessions that go on from it: requests that need no agent.

use super::commit::Work;
use super::requests::refuse;
use super::{AppenderClosed, Keeper};
use crate::budget::BudgetChange;
use crate::disk_failure;
use crate::request::Reply;
use turnstream_model::event::By;
use turnstream_model::id::SessionId;

impl Keeper {
    /// Changes the caps of the session. Prompts that waited for a higher cap are sent after this.
    pub(super) async fn set_budget(
        &mut self,
        change: &BudgetChange,
        mut work: Work,
        reply: Reply<()>,
    ) -> Result<(), AppenderClosed> {
        if let Some(failure) = disk_failure::current(&self.shared.log) {
            return refuse(reply, failure.refused());
        }
        let budget = change.applied_to(&self.machine.budget());
        match self.step(&mut work, |machine, step| machine.set_budget(budget, By::Client, step)) {
            Ok(()) => {
                work.reply(reply, ());
                self.commit(work).await
            }
            Err(refusal) => refuse(reply, refusal.into()),
        }
    }

    /// Notes that another session goes on from this one. A repeated request changes nothing.
    pub(super) async fn note_successor(
        &mut self,
        to: SessionId,
        agent: String,
        mut work: Work,
        reply: Reply<()>,
    ) -> Result<(), AppenderClosed> {
        if !self.session.handed_over.contains(&to) {
            let noted = self.step(&mut work, |machine, step| machine.hand_over(to, agent, step));
            if let Err(refusal) = noted {
                return refuse(reply, refusal.into());
            }
        }
        work.reply(reply, ());
        self.commit(work).await
    }
}
