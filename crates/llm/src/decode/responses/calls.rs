//! Which calls of a response count. They are whole one by one, and count together at the end of the step: under
//! `response.incomplete` none of them runs, and that comes behind all of them.

use super::Responses;
use super::output::{Loss, State};
use crate::attempt::{Call, Evidence, Why, Withheld};
use crate::decode::attempt::{Attempt, Over};
use crate::decode::calls::{Received, settle};
use crate::profile::EmptyArguments;

impl Responses {
    /// The response is over and said so, with nothing left open.
    pub(super) fn settle_calls(&mut self, attempt: &mut Attempt) {
        let calls = received(self.finished(|_| true));
        settle(calls, EmptyArguments::Invalid, attempt);
    }

    /// The body ended in another way. Calls that were whole before anything was lost are the response's own; a step that was
    /// cut behind them is truncated to them.
    pub(super) fn settle_rest(&mut self, attempt: &mut Attempt) {
        if !attempt.contradicted() && !self.bad_end && !self.is_mixed(attempt) {
            let calls = received(self.finished(|loss| loss == Loss::None));
            settle(calls, EmptyArguments::Invalid, attempt);
        }
        for call in self.finished(|_| true) {
            attempt.withheld.push(Withheld { item: call.item, name: call.name, why: Why::Tainted });
        }
    }

    /// Whether events of another response may have been read before it was noticed. Not where that shows by its beginning.
    fn is_mixed(&self, attempt: &Attempt) -> bool {
        let begins = |evidence| match evidence {
            Evidence::Start | Evidence::Glue => true,
            Evidence::Id
            | Evidence::Created
            | Evidence::Fingerprint
            | Evidence::Role
            | Evidence::SequenceReset
            | Evidence::AfterEnd => false,
        };
        let found = attempt.identity.findings.first();
        attempt.over() == Some(Over::Spliced) && !found.is_some_and(|finding| begins(finding.evidence))
    }

    /// Takes out the calls that are whole and wait for the end of the step, in their order.
    fn finished(&mut self, wanted: impl Fn(Loss) -> bool) -> Vec<Call> {
        self.items.sort_by_key(|item| item.index);
        let finished = self.items.iter_mut().filter_map(|item| {
            let State::Finished { loss, .. } = item.state else { return None };
            if !wanted(loss) {
                return None;
            }
            match std::mem::replace(&mut item.state, State::Withheld) {
                State::Finished { call, .. } => Some(call),
                State::Open | State::Committed(_) | State::Withheld => None,
            }
        });
        finished.collect()
    }
}

/// Those that were damaged are not among the finished ones.
fn received(calls: Vec<Call>) -> Vec<Received> {
    calls.into_iter().map(|call| Received { call, is_damaged: false }).collect()
}
