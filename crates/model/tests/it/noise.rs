//! A noisy agent and a clean one that say the same fold to the same text, in the same turns.

use crate::support::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use turnstream_model::check::Tail;
use turnstream_model::event::{ErrorClass, ItemKind, Outcome, Role, ToolStatus, TurnError};
use turnstream_model::signal::{Need, ProbedStatus, Signal};

/// What an agent says in one turn: model calls, each with items, each in chunks.
#[derive(Clone, Debug)]
struct Call {
    /// The call is cut off once after some text and repeated.
    retried: bool,
    items: Vec<Said>,
}

#[derive(Clone, Debug)]
struct Said {
    what: What,
    chunks: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Message,
    Reasoning,
    Tool,
    /// A tool with a subagent that says this while the tool runs.
    Task,
}

fn some_turn() -> impl Strategy<Value = Vec<Call>> {
    let what = proptest::sample::select(
        &[What::Message, What::Message, What::Reasoning, What::Tool, What::Task][..],
    );
    // Few letters, so that repeats look alike and only content can tell them apart.
    let said =
        (what, proptest::collection::vec("[ab]{1,3}", 1..5)).prop_map(|(what, chunks)| Said { what, chunks });
    let call = (proptest::bool::weighted(0.2), proptest::collection::vec(said, 1..4))
        .prop_map(|(retried, items)| Call { retried, items });
    proptest::collection::vec(call, 1..4)
}

/// Reproducible choices; a property test shrinks the seed like any number.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

/// The signals of one turn without any noise, from the prompt to the last update before its idle.
fn clean(turn: usize, calls: &[Call]) -> Vec<Signal> {
    let user = format!("t{turn}user");
    let mut signals = vec![seen(&user, ItemKind::Message, Some(Role::User), None)];
    signals.extend([whole(&user, "go"), done(&user), busy()]);
    for (step, call) in calls.iter().enumerate() {
        let id = format!("t{turn}c{step}");
        let last = step + 1 == calls.len();
        if call.retried {
            let void = format!("{id}-void");
            signals.extend([attempt(&format!("{id}-first")), message(&void), delta(&void, "never mind")]);
            signals.push(Signal::Retrying {
                attempt: Some(1),
                reason: Some(ErrorClass::Overloaded),
                until: None,
                message: None,
            });
        }
        signals.push(attempt(&id));
        for (index, said) in call.items.iter().enumerate() {
            let key = format!("{id}i{index}");
            let text = said.chunks.concat();
            match said.what {
                What::Message | What::Reasoning => {
                    let kind =
                        if said.what == What::Message { ItemKind::Message } else { ItemKind::Reasoning };
                    signals.push(seen(&key, kind, Some(Role::Assistant), None));
                    signals.extend(said.chunks.iter().map(|chunk| delta(&key, chunk)));
                    signals.extend([whole(&key, &text), done(&key)]);
                }
                What::Tool => {
                    let states = [ToolStatus::Pending, ToolStatus::InProgress, ToolStatus::Completed];
                    signals.extend(states.map(|status| tool(&key, status)));
                }
                What::Task => {
                    let child = format!("{key}-child");
                    signals.push(tool(&key, ToolStatus::InProgress));
                    signals.push(seen(&child, ItemKind::Message, Some(Role::Assistant), Some(&key)));
                    signals.extend(said.chunks.iter().map(|chunk| delta(&child, chunk)));
                    signals.extend([whole(&child, &text), done(&child), tool(&key, ToolStatus::Completed)]);
                }
            }
        }
        signals.push(attempt_done(&id, if last { "stop" } else { "tool_calls" }));
    }
    signals
}

/// What networks and agents really do to a stream: repeat anything, lose text, tell what an item is only
/// after its first words, show old snapshots, say old things again.
fn noisy(signals: Vec<Signal>, old: &[Signal], dice: &mut Dice) -> Vec<Signal> {
    let mut out: Vec<Signal> = Vec::new();
    for signal in signals {
        if let Signal::TextDelta { key, .. } = &signal {
            if dice.one_in(5) {
                continue;
            }
            if dice.one_in(8) {
                out.push(so_far(key.as_str(), ""));
            }
        }
        if dice.one_in(6) && !old.is_empty() {
            out.push(old[dice.roll(old.len() as u64) as usize].clone());
        }
        let repeated = dice.one_in(4).then(|| signal.clone());
        out.push(signal);
        out.extend(repeated);
    }
    // Text overtakes the introduction of its item.
    for index in 1..out.len() {
        let overtakes = matches!(
            (&out[index - 1], &out[index]),
            (Signal::ItemSeen(seen), Signal::TextDelta { key, .. }) if seen.key == *key
        );
        if overtakes && dice.one_in(2) {
            out.swap(index - 1, index);
        }
    }
    out
}

/// Plays a whole conversation; the agent answers truthfully when it is asked.
fn converse(turns: &[Vec<Call>], mut dice: Option<Dice>) -> Session {
    let mut session = Session::new();
    let mut old: Vec<Signal> = Vec::new();
    for (number, calls) in turns.iter().enumerate() {
        session.prompt("go");
        let signals = clean(number, calls);
        let Some(dice) = &mut dice else {
            session.observe_all(signals);
            session.observe(idle());
            continue;
        };
        // The second idle, or the error, of the turn before.
        for _ in 0..dice.roll(3) {
            session.observe(idle());
        }
        if dice.one_in(4) {
            session.observe(Signal::Failed(TurnError::new(ErrorClass::Cancelled, "of the turn before")));
        }
        let closing = closing_words(&signals);
        let deltas_before = session.count("item.delta");
        let mut stale_idles = 2;
        for signal in noisy(signals, &old, dice) {
            let is_start = matches!(signal, Signal::TurnBegan { .. } | Signal::ItemSeen(_));
            session.observe(signal);
            // The second idle of the turn before, at the latest while this one begins.
            if is_start && stale_idles > 0 && session.count("item.delta") == deltas_before {
                stale_idles -= 1;
                session.observe(idle());
            }
            if dice.one_in(20) {
                pause(&mut session, ProbedStatus::Busy);
            }
        }
        session.observe(idle());
        pause(&mut session, ProbedStatus::Idle);
        old.extend(closing);
        if dice.one_in(2) {
            session.observe_all(old.iter().cloned());
        }
    }
    session
}

/// Signals that agents repeat long after their turn: final states, never new words.
fn closing_words(signals: &[Signal]) -> Vec<Signal> {
    let is_final = |signal: &&Signal| match signal {
        Signal::TextSnapshot { .. } | Signal::ItemEnded { .. } | Signal::AttemptEnded { .. } => true,
        Signal::ToolSeen { tool, .. } => tool.status == Some(ToolStatus::Completed),
        _ => false,
    };
    signals.iter().filter(is_final).cloned().collect()
}

/// Time passes without news. Whoever asks is answered.
fn pause(session: &mut Session, status: ProbedStatus) {
    session.pass(2_000);
    for need in std::mem::take(&mut session.needs) {
        if let Need::StatusProbe(turn) = need {
            session.observe(Signal::StatusProbed { turn, status });
        }
    }
}

fn texts(session: &Session) -> BTreeMap<String, (ItemKind, String)> {
    let items = session.fold.state().items.iter();
    items
        .map(|item| (item.native_id.clone().unwrap(), (item.kind, item.text.clone().unwrap_or_default())))
        .collect()
}

fn outcomes(session: &Session) -> Vec<Option<Outcome>> {
    session.fold.state().turns.iter().map(|turn| turn.outcome).collect()
}

proptest! {
    #[test]
    fn a_noisy_stream_folds_to_the_text_of_the_clean_one(
        turns in proptest::collection::vec(some_turn(), 1..4),
        seed in any::<u64>(),
    ) {
        let clean = converse(&turns, None);
        let noisy = converse(&turns, Some(Dice(seed)));
        clean.assert_lawful(Tail::Settled);
        noisy.assert_lawful(Tail::Settled);
        prop_assert_eq!(outcomes(&clean), vec![Some(Outcome::Completed); turns.len()]);
        prop_assert_eq!(outcomes(&noisy), outcomes(&clean), "{}", noisy.show());
        prop_assert_eq!(texts(&noisy), texts(&clean), "{}", noisy.show());
    }

    #[test]
    fn a_crash_at_any_point_loses_no_text_and_ends_the_turn_once(
        turn in some_turn(),
        at in any::<proptest::sample::Index>(),
    ) {
        let signals = clean(0, &turn);
        let mut session = Session::new();
        session.prompt("go");
        let cut = at.index(signals.len());
        session.observe_all(signals[..cut].iter().cloned());
        let seen_before = texts(&session);
        session.machine = turnstream_model::machine::Machine::resume(session.fold.state());
        session.ids = session.fold.state().counters;
        session.observe(Signal::LinkLost(TurnError::new(ErrorClass::AgentExited, "gone")));
        prop_assert_eq!(texts(&session), seen_before);
        prop_assert_eq!(session.count("turn.started"), session.count("turn.ended"));
        // Nobody told the new owner of the calls it missed: late news must not start a second turn.
        session.observe_all(closing_words(&signals[..cut]));
        prop_assert!(session.count("turn.started") <= 1);
        session.assert_lawful(Tail::Settled);
    }
}
