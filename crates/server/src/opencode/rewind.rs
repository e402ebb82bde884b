//! A state as it was some events ago, for an encoder that begins there.

use std::collections::HashSet;
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Effect, Event, Subject};
use turnstream_model::fold::{Activity, State};

/// The state before these events, which end at the state. `None` unless nothing was open there: then the
/// state alone does not say how far it had come.
pub(super) fn rewind(mut state: State, events: &[Event], before: Seq) -> Option<State> {
    if before == Seq(0) {
        return Some(State::default());
    }
    let mut begun: HashSet<&str> = HashSet::new();
    for event in events {
        let Some((subject, effect)) = event.draft.about() else { continue };
        let id = match subject {
            Subject::Session | Subject::Notice => continue,
            Subject::Prompt(id) => id.as_str(),
            Subject::Turn(id) => id.as_str(),
            Subject::Attempt(id) => id.as_str(),
            Subject::Item(id) => id.as_str(),
            Subject::Approval(id) => id.as_str(),
            Subject::Question(id) => id.as_str(),
        };
        match effect {
            Effect::Begins => drop(begun.insert(id)),
            Effect::Changes | Effect::Cancels | Effect::Ends if begun.contains(id) => {}
            // It began earlier and was open, or it was corrected or taken back late.
            Effect::Changes | Effect::Cancels | Effect::Ends => return None,
        }
    }
    let is_old = |id: &str| !begun.contains(id);
    state.turns.retain(|turn| is_old(turn.turn.as_str()));
    state.items.retain(|item| is_old(item.id.as_str()));
    state.approvals.retain(|approval| is_old(approval.approval.as_str()));
    state.questions.retain(|asked| is_old(asked.question.as_str()));
    state.queue.retain(|prompt| is_old(prompt.prompt.as_str()));
    state.prompts.retain(|prompt| is_old(prompt.prompt.as_str()));
    if state.open_turn().is_some() {
        return None;
    }
    (state.session.status, state.session.retry) = (Activity::Idle, None);
    state.seq = before;
    Some(state)
}
