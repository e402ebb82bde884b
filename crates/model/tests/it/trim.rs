//! Logs whose beginning is no longer kept: what is left is exactly the whole without what is gone.

use crate::acts::*;
use crate::support::*;
use proptest::prelude::*;
use serde_json::json;
use turnstream_model::check::{Checker, Tail};
use turnstream_model::cursor::{Cursor, CursorOutcome, Generation, ResetReason, Seq};
use turnstream_model::event::Event;
use turnstream_model::export::Header;
use turnstream_model::fold::{Applied, Fold, Gone, OpenIds, SPENT_KEPT, State};
use turnstream_model::machine::Machine;

/// Every place at which retention may cut this log.
fn cuts(log: &[Event]) -> Vec<usize> {
    let now = Fold::of(log).state().open().ids();
    let mut fold = Fold::new();
    let mut cuts = Vec::new();
    for (index, event) in log.iter().enumerate() {
        fold.apply(event);
        if fold.may_cut_after(event, &now) {
            cuts.push(index + 1);
        }
    }
    cuts
}

/// The fold of these events without the names that are gone.
fn without(mut state: State, gone: &Gone, base: &State) -> State {
    state.turns.retain(|turn| !gone.turns.contains(&turn.turn));
    state.items.retain(|item| !gone.items.contains(&item.id));
    state.approvals.retain(|ask| !gone.approvals.contains(&ask.approval));
    state.questions.retain(|asked| !gone.questions.contains(&asked.question));
    state.prompts.retain(|prompt| !gone.prompts.contains(&prompt.prompt));
    state.spent.clone_from(&base.spent);
    state.trimmed = base.trimmed;
    state
}

fn apply_all(fold: &mut Fold, events: &[Event]) {
    for event in events {
        assert_eq!(fold.apply(event), Applied::Yes);
    }
}

proptest! {
    #[test]
    fn l4_the_base_and_the_rest_are_the_whole_without_what_is_gone(acts in some_acts()) {
        let log = play(&acts).log;
        let whole = Fold::of(&log).into_state();
        let mut stepwise = Fold::new();
        let mut done = 0;
        for cut in cuts(&log) {
            let (base, gone) = Fold::of(&log[..cut]).into_state().trimmed(log[cut - 1].time);
            let mut fold = Fold::from(base.clone());
            apply_all(&mut fold, &log[cut..]);
            prop_assert_eq!(fold.state(), &without(whole.clone(), &gone, &base));
            // Nothing that is open at the head was touched.
            prop_assert_eq!(fold.state().open().ids(), whole.open().ids());
            prop_assert_eq!(&fold.state().counters, &whole.counters);
            // Trimming a little at a time leaves the same.
            apply_all(&mut stepwise, &log[done..cut]);
            let (step, _) = stepwise.into_state().trimmed(log[cut - 1].time);
            prop_assert_eq!(&step, &base);
            stepwise = Fold::from(step);
            done = cut;
        }
    }

    #[test]
    fn every_base_comes_back_equal_from_the_header_of_a_file(acts in some_acts()) {
        let log = play(&acts).log;
        for cut in cuts(&log) {
            let (base, _) = Fold::of(&log[..cut]).into_state().trimmed(log[cut - 1].time);
            let header = Header {
                turnstream: "0.1.0".to_owned(),
                session: base.session.id.clone().unwrap(),
                agent: base.session.agent.clone(),
                generation: Generation::new("g1").unwrap(),
                first: base.seq.next(),
                head: Seq(log.len() as u64),
                exported: log[cut - 1].time,
                left_out: 0,
                base: Some(Box::new(base)),
            };
            prop_assert_eq!(Header::from_json(&header.to_json()), Ok(header));
        }
    }

    #[test]
    fn what_is_left_of_a_log_is_lawful(acts in some_acts()) {
        let session = play(&acts);
        for cut in cuts(&session.log) {
            let mut checker = Checker::new();
            for event in &session.log[cut..] {
                checker.line(&event.to_json());
            }
            let report = checker.finish(Tail::Live);
            prop_assert!(report.violations.is_empty(), "cut after {cut}:\n{}{}", show(&report), session.show());
        }
    }

    #[test]
    fn every_cursor_into_a_trimmed_log_is_decided(acts in some_acts()) {
        let log = play(&acts).log;
        let (generation, head) = (Generation::new("g1").unwrap(), Seq(log.len() as u64));
        for cut in cuts(&log) {
            let oldest = Seq(cut as u64 + 1);
            for seq in (0..=head.0 + 1).map(Seq) {
                let cursor = Cursor { generation: Some(generation.clone()), seq };
                let reset = |reason| CursorOutcome::Reset { generation: generation.clone(), reason, oldest, head };
                let wanted = if seq > head {
                    reset(ResetReason::BeyondHead)
                } else if seq == head {
                    CursorOutcome::CaughtUp { generation: generation.clone(), head }
                } else if seq < Seq(cut as u64) {
                    reset(ResetReason::Trimmed)
                } else {
                    CursorOutcome::Replayed { generation: generation.clone(), from: seq.next(), to: head, head }
                };
                prop_assert_eq!(CursorOutcome::decide(&cursor, &generation, oldest, head), wanted);
            }
        }
    }

    #[test]
    fn late_news_of_what_is_gone_breaks_nothing(acts in some_acts(), more in some_acts(), resume in any::<bool>()) {
        let mut session = play(&acts);
        let Some(cut) = cuts(&session.log).pop() else { return Ok(()) };
        let last = session.log[cut - 1].time;
        let (base, _) = Fold::of(&session.log[..cut]).into_state().trimmed(last);
        let mut fold = Fold::from(base);
        apply_all(&mut fold, &session.log[cut..]);
        session.fold = fold;
        if resume {
            // The next owner knows only what is left.
            session.machine = Machine::resume(session.fold.state());
            session.needs.clear();
        }
        for one in more {
            act(&mut session, one);
        }
        session.assert_lawful(Tail::Live);
    }
}

#[test]
fn the_keys_of_forgotten_prompts_are_remembered_up_to_a_cap() {
    let mut session = Session::new();
    let turns = SPENT_KEPT + 3;
    for number in 1..=turns {
        let key = Some(format!("k{number}"));
        let content = vec![json!({"type": "text", "text": "go"})];
        let prompt = session.step(|machine, step| machine.accept(key, content, step)).unwrap().prompt;
        session.step(|machine, step| machine.send(&prompt, Some(format!("n{number}")), step)).unwrap();
        let item = format!("m{number}");
        session.observe_all([busy(), message(&item), whole(&item, "x"), done(&item), idle()]);
    }
    assert_eq!(session.count("turn.ended"), turns);
    let last = session.log.last().unwrap().time;
    let (base, gone) = session.fold.clone().into_state().trimmed(last);
    assert_eq!(base.trimmed, Some(last));
    assert_eq!((gone.turns.len(), gone.prompts.len(), gone.items.len()), (turns, turns, turns));
    assert_eq!(base.spent.len(), SPENT_KEPT);
    assert_eq!((base.spent[0].key.as_str(), base.spent[0].prompt.as_str()), ("k4", "p4"));
    assert_eq!(base.open().ids(), OpenIds::default());
    assert!(base.open().ids().is_empty());
}
