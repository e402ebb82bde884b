//! Commits the calls of a response.
//!
//! Each call is complete on its own, but all are committed together at the end of the step: under
//! `response.incomplete` none of them runs, and that event follows all calls.

use super::Responses;
use super::output::{Loss, State};
use crate::attempt::{SpliceEvidence, ToolCall, WithheldCall, WithheldReason};
use crate::decode::attempt::{Attempt, Over};
use crate::decode::calls::{ReceivedCall, commit_calls, empty_arguments};
use crate::profile::EmptyArguments;

impl Responses {
    /// Commits the calls of a response that ended with nothing left open.
    pub(super) fn commit_step(&mut self, attempt: &mut Attempt) {
        let calls = received(self.finished(|_| true));
        let empty = empty_arguments(attempt);
        commit_calls(calls, empty, attempt);
    }

    /// Commits the calls of a response that did not end properly.
    ///
    /// Calls that were complete before the first loss belong to this response. The step is truncated to them.
    pub(super) fn commit_before_cut(&mut self, attempt: &mut Attempt) {
        if !attempt.contradicted() && !self.bad_end && !self.is_mixed(attempt) {
            let calls = received(self.finished(|loss| loss == Loss::None));
            commit_calls(calls, EmptyArguments::Invalid, attempt);
        }
        for call in self.finished(|_| true) {
            attempt.withheld.push(WithheldCall {
                item: call.item,
                name: call.name,
                reason: WithheldReason::Tainted,
            });
        }
    }

    /// Whether events of another response may have been read before it was noticed. A response that is
    /// noticed by its first event was not read.
    fn is_mixed(&self, attempt: &Attempt) -> bool {
        let begins = |evidence| match evidence {
            SpliceEvidence::Start | SpliceEvidence::Glue => true,
            SpliceEvidence::Id
            | SpliceEvidence::Created
            | SpliceEvidence::Fingerprint
            | SpliceEvidence::Role
            | SpliceEvidence::SequenceReset
            | SpliceEvidence::AfterEnd => false,
        };
        let found = attempt.identity.findings.first();
        attempt.over() == Some(Over::Spliced) && !found.is_some_and(|finding| begins(finding.evidence))
    }

    /// Removes the complete calls that wait for the end of the step, in order.
    fn finished(&mut self, wanted: impl Fn(Loss) -> bool) -> Vec<ToolCall> {
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

/// Damaged calls are not among the finished ones.
fn received(calls: Vec<ToolCall>) -> Vec<ReceivedCall> {
    calls.into_iter().map(|call| ReceivedCall { call, is_damaged: false }).collect()
}
