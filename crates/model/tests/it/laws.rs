//! The laws, over signal sequences that nobody thought of.

use crate::acts::*;
use crate::support::*;
use proptest::prelude::*;
use turnstream_model::check::Tail;
use turnstream_model::event::{ErrorClass, Event, ItemKind, Role, TurnError};
use turnstream_model::fold::{Applied, Fold, State};
use turnstream_model::signal::Signal;

/// Every event of a log reads back from its own JSON.
fn reread(log: &[Event]) -> Vec<Event> {
    log.iter().map(|event| Event::from_json(&event.to_json()).unwrap()).collect()
}

proptest! {
    #[test]
    fn l1_and_l2_hold_whatever_the_agent_does(acts in some_acts()) {
        let mut session = play(&acts);
        session.assert_lawful(Tail::Live);
        // Whatever is open when the agent goes away is ended, once.
        session.observe(Signal::LinkLost(TurnError::new(ErrorClass::AgentExited, "gone")));
        session.assert_lawful(Tail::Settled);
        let started = session.count("turn.started");
        prop_assert_eq!(session.count("turn.ended"), started);
    }

    #[test]
    fn an_ended_session_is_lawful(acts in some_acts(), more in some_acts()) {
        let mut session = play(&acts);
        session.step(|machine, step| machine.end_session("deleted".into(), step)).unwrap();
        let events = session.log.len();
        for one in more.into_iter().filter(|one| matches!(one, Act::Observe(_) | Act::Pass(_))) {
            act(&mut session, one);
        }
        prop_assert_eq!(session.log.len(), events);
        session.assert_lawful(Tail::Settled);
        prop_assert!(session.fold.state().queue.is_empty());
    }

    #[test]
    fn l4_a_snapshot_and_its_tail_are_the_whole_at_every_cut(acts in some_acts()) {
        let log = play(&acts).log;
        let whole = Fold::of(&log).into_state();
        let mut head = Fold::new();
        for (cut, event) in log.iter().enumerate() {
            head.apply(event);
            let stored = serde_json::to_string(head.state()).unwrap();
            let mut fold = Fold::from(serde_json::from_str::<State>(&stored).unwrap());
            for event in &log[cut + 1..] {
                prop_assert_eq!(fold.apply(event), Applied::Yes);
            }
            prop_assert_eq!(fold.state(), &whole);
        }
    }

    #[test]
    fn the_fold_is_deterministic_and_takes_repeats_and_gaps(acts in some_acts(), at in any::<proptest::sample::Index>()) {
        let log = play(&acts).log;
        let again = play(&acts).log;
        prop_assert_eq!(&log, &again);
        let whole = Fold::of(&log).into_state();
        let mut fold = Fold::of(&log);
        for event in &log {
            prop_assert_eq!(fold.apply(event), Applied::Repeated);
        }
        prop_assert_eq!(fold.state(), &whole);
        let missing = at.index(log.len());
        let mut holed = Fold::new();
        for (index, event) in log.iter().enumerate().filter(|(index, _)| *index != missing) {
            let wanted = if index < missing { Applied::Yes } else { Applied::Gap { expected: log[missing].seq } };
            prop_assert_eq!(holed.apply(event), wanted);
        }
        for event in &log[missing..] {
            holed.apply(event);
        }
        prop_assert_eq!(holed.state(), &whole);
    }

    #[test]
    fn events_read_back_from_their_json(acts in some_acts()) {
        let log = play(&acts).log;
        prop_assert_eq!(reread(&log), log);
    }

    #[test]
    fn a_final_snapshot_makes_the_text_exact(deltas in proptest::collection::vec("[AB]{0,3}", 0..12), full in "[AB]{0,24}") {
        let mut session = Session::new();
        session.prompt("go");
        session.observe_all([busy(), message("a")]);
        session.observe_all(deltas.iter().map(|text| delta("a", text)));
        session.observe(whole("a", &full));
        prop_assert_eq!(session.text("a"), full.as_str());
        session.observe_all([done("a"), idle()]);
        session.assert_lawful(Tail::Settled);
    }

    #[test]
    fn without_evidence_of_work_nothing_starts_and_nothing_ends(signals in proptest::collection::vec(prop_oneof![
        Just(idle()),
        some_error().prop_map(Signal::Failed),
        some_ending().prop_map(|ending| Signal::TurnDone { native_id: None, ending }),
        Just(seen("u", ItemKind::Message, Some(Role::User), None)),
        Just(whole("u", "go")),
        Just(Signal::Gap("cut".into())),
    ], 0..20)) {
        let mut session = Session::new();
        session.prompt("go");
        session.observe_all(signals);
        session.pass(60_000);
        prop_assert_eq!(session.count("turn.started"), 0);
        prop_assert_eq!(session.count("turn.ended"), 0);
    }
}
