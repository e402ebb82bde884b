//! What holds for every store that deletes and trims.

use super::support::*;
use super::*;
use crate::store::{Cut, Removal};
use crate::{AppendError, ClaimError, Committed, Follow, Keep, ReadError, RemoveError, Trimmed};
use turnstream_model::cursor::{Cursor, CursorOutcome, ResetReason, Seq};
use turnstream_model::event::{Body, Draft};
use turnstream_model::fold::{Fold, Gone, State};
use turnstream_model::id::{PromptId, SessionId};
use turnstream_model::time::Time;

/// The events of a session with this many turns: one for its creation, and five for each turn.
async fn with_turns(log: &Log, name: &str, turns: u64) -> crate::Appender {
    let mut appender = log.create(&id(name)).await.unwrap();
    append(&mut appender, vec![created(name)]).await;
    for number in 1..=turns {
        say(&mut appender, number, &format!("text {number}")).await;
    }
    appender
}

/// Trims until something was removed: the latest events may not be flushed yet.
async fn trim(log: &Log, name: &str, keep: &Keep) -> Trimmed {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let trimmed = log.trim(&id(name), keep).await.unwrap();
        if trimmed != Trimmed::default() || tokio::time::Instant::now() > deadline {
            return trimmed;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Keeps this many turns of a session after all of its turns are flushed.
async fn keep_turns(log: &Log, name: &str, all: u64, turns: u64) -> Trimmed {
    let key = store(log).session(&id(name)).unwrap().unwrap().key;
    until(|| store(log).size(key).unwrap().turns == all).await;
    trim(log, name, &Keep { turns: Some(turns), ..Keep::default() }).await
}

fn at(seq: u64) -> Cursor {
    Cursor { generation: None, seq: Seq(seq) }
}

fn parsed(events: &[Committed]) -> Vec<turnstream_model::event::Event> {
    events.iter().map(|event| event.event().unwrap()).collect()
}

async fn first_step(log: &Log, name: &str, cursor: &Cursor) -> CursorOutcome {
    match log.follow(&id(name), cursor).unwrap().next().await.unwrap() {
        Follow::Outcome(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

pub(super) async fn a_deleted_session_is_found_by_nobody(place: &dyn Place) {
    let log = log_on(place);
    drop(with_turns(&log, "s", 2).await);
    drop(with_turns(&log, "other", 1).await);
    log.delete(&id("s")).await.unwrap();
    for log in [log.clone(), {
        log.erased().await.unwrap();
        log.clone().close().await;
        drop(log);
        log_on(place)
    }] {
        assert!(matches!(log.head(&id("s")), Err(ReadError::Unknown(_))));
        assert!(matches!(log.snapshot(&id("s")), Err(ReadError::Unknown(_))));
        assert!(matches!(log.read(&id("s"), Seq(0), 9), Err(ReadError::Unknown(_))));
        assert!(matches!(log.follow(&id("s"), &at(0)), Err(ReadError::Unknown(_))));
        assert!(matches!(log.claim(&id("s")).await, Err(ClaimError::Unknown(_))));
        assert_eq!(log.sessions().unwrap(), [id("other")]);
        assert_eq!(abandoned(&log), []);
        assert_eq!(log.read(&id("other"), Seq(0), 99).unwrap().len(), 6, "the other is untouched");
        if log.removed().erasures > 0 {
            assert_eq!(log.removal(&id("s")).unwrap(), Some(Removal::Done));
        }
    }
}

pub(super) async fn an_owner_of_a_deleted_session_cannot_append(place: &dyn Place) {
    let log = log_on(place);
    let mut owner = talking(&log, "s").await;
    let mut other = talking(&log, "other").await;
    log.delete(&id("s")).await.unwrap();
    let refused = owner.append(vec![delta("t1", "i1", "late")], NOW).await.unwrap();
    let accepted = other.append(vec![delta("t1", "i1", "fine")], NOW).await.unwrap();
    assert_eq!(refused.await, Err(AppendError::Deleted("s".into())));
    assert_eq!(accepted.await, Ok(Seq(4)));
    drop(owner);
    assert_eq!(abandoned(&log), [], "its open turn went with it");
}

pub(super) async fn a_deleted_session_makes_room_for_another_of_its_name(place: &dyn Place) {
    let log = log_on(place);
    let mut old = with_turns(&log, "s", 3).await;
    let (generation, head) = log.head(&id("s")).unwrap();
    log.delete(&id("s")).await.unwrap();
    let mut new = log.create(&id("s")).await.unwrap();
    assert_eq!(append(&mut new, vec![created("s")]).await, 1);
    assert_ne!(log.head(&id("s")).unwrap().0, generation);
    // An appender of the deleted session cannot write.
    let late = old.append(vec![turn_started("t9")], NOW).await.unwrap().await;
    assert_eq!(late, Err(AppendError::Deleted("s".into())));
    let cursor = Cursor { generation: Some(generation), seq: head };
    let wanted = CursorOutcome::Reset {
        generation: log.head(&id("s")).unwrap().0,
        reason: ResetReason::Generation,
        oldest: Seq(1),
        head: Seq(1),
    };
    assert_eq!(first_step(&log, "s", &cursor).await, wanted);
    log.erased().await.unwrap();
    drop((old, new));
    log.close().await;
    let log = log_on(place);
    assert_eq!(seqs(&log.read(&id("s"), Seq(0), 99).unwrap()), [1]);
    assert_eq!(log.claim(&id("s")).await.unwrap().head(), Seq(1));
}

pub(super) async fn a_follower_of_a_deleted_session_is_handed_the_rest_and_told(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = with_turns(&log, "s", 1).await;
    let mut tail = log.follow(&id("s"), &at(6)).unwrap();
    assert!(matches!(tail.next().await.unwrap(), Follow::Outcome(CursorOutcome::CaughtUp { .. })));
    let ended = Draft::new(Body::SessionEnded { reason: "deleted".into() });
    append(&mut appender, vec![ended]).await;
    log.delete(&id("s")).await.unwrap();
    let Follow::Events(last) = tail.next().await.unwrap() else { panic!("the end comes first") };
    assert_eq!(seqs(&last), [7]);
    assert_eq!(tail.next().await.unwrap(), Follow::Deleted);
    assert_eq!(tail.next().await.unwrap(), Follow::Deleted, "and stays so");
}

pub(super) async fn a_second_delete_finds_nothing(place: &dyn Place) {
    let log = log_on(place);
    assert!(matches!(log.delete(&id("s")).await, Err(RemoveError::Unknown(_))));
    assert_eq!(log.removal(&id("s")).unwrap(), None);
    drop(with_turns(&log, "s", 1).await);
    log.delete(&id("s")).await.unwrap();
    assert!(matches!(log.delete(&id("s")).await, Err(RemoveError::Unknown(_))));
    log.erased().await.unwrap();
    assert_eq!(log.removal(&id("s")).unwrap(), Some(Removal::Done));
    assert_eq!(log.removed().sessions, 1);
}

pub(super) async fn a_trimmed_session_begins_later_for_every_reader(place: &dyn Place) {
    let log = log_on(place);
    drop(with_turns(&log, "s", 5).await);
    let all = log.read(&id("s"), Seq(0), usize::MAX).unwrap();
    let trimmed = keep_turns(&log, "s", 5, 2).await;
    let bytes = all[..16].iter().map(|event| event.json().len() as u64).sum();
    assert_eq!(trimmed, Trimmed { turns: 3, events: 16, bytes });
    let (base, gone) = Fold::of(&parsed(&all[..16])).into_state().trimmed(NOW);
    assert_eq!(gone.turns.len(), 3);
    let mut rest = Fold::from(base.clone());
    for event in &parsed(&all[16..]) {
        rest.apply(event);
    }
    for log in [log.clone(), {
        log.clone().close().await;
        drop(log);
        log_on(place)
    }] {
        let key = store(&log).session(&id("s")).unwrap().unwrap().key;
        assert_eq!(store(&log).base(key).unwrap(), base);
        assert_eq!(log.snapshot(&id("s")).unwrap().state, *rest.state(), "L4 on what is kept");
        let kept = log.kept(&id("s")).unwrap();
        assert_eq!((kept.oldest, kept.head, kept.turns), (Seq(17), Seq(26), 2));
        for after in 0..=27 {
            let outcome = first_step(&log, "s", &at(after)).await;
            let generation = log.head(&id("s")).unwrap().0;
            let (oldest, head) = (Seq(17), Seq(26));
            assert_eq!(outcome, CursorOutcome::decide(&at(after), &generation, oldest, head));
            match after {
                0..16 => {
                    assert!(matches!(outcome, CursorOutcome::Reset { reason: ResetReason::Trimmed, .. }));
                    let read = log.read(&id("s"), Seq(after), 9);
                    assert!(matches!(read, Err(ReadError::Trimmed { oldest: Seq(17), .. })), "{read:?}");
                }
                16..26 => assert_eq!(log.read(&id("s"), Seq(after), 99).unwrap(), all[after as usize..]),
                26.. => assert!(log.read(&id("s"), Seq(after), 9).unwrap().is_empty()),
            }
        }
        let mut follower = log.follow(&id("s"), &at(3)).unwrap();
        assert_eq!(events(&mut follower, 26).await, all[16..], "after the reset it goes on at the oldest");
    }
}

pub(super) async fn a_trim_keeps_what_is_asked_for(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = log.create(&id("s")).await.unwrap();
    append(&mut appender, vec![created("s")]).await;
    for number in 1..=6_u64 {
        let (turn, item) = (format!("t{number}"), format!("i{number}"));
        let drafts =
            vec![turn_started(&turn), item_started(&turn, &item), delta(&turn, &item, &"x".repeat(1_000))];
        appender.append(drafts, Time(NOW.0 + number)).await.unwrap().await.unwrap();
        let end =
            vec![item_ended(&turn, &item, turnstream_model::event::ItemState::Completed), turn_ended(&turn)];
        appender.append(end, Time(NOW.0 + number)).await.unwrap().await.unwrap();
    }
    let key = store(&log).session(&id("s")).unwrap().unwrap().key;
    until(|| store(&log).size(key).unwrap().turns == 6 && store(&log).base(key).is_ok()).await;
    until(|| store(&log).read(key, Seq(31), 9).unwrap().len() == 1).await;
    let nothing = Keep { since: Some(NOW), bytes: Some(1 << 20), turns: Some(6) };
    assert_eq!(log.trim(&id("s"), &nothing).await.unwrap(), Trimmed::default());
    let by_age = Keep { since: Some(Time(NOW.0 + 3)), ..Keep::default() };
    assert_eq!(log.trim(&id("s"), &by_age).await.unwrap().turns, 2, "those that ended before it");
    let bytes = log.kept(&id("s")).unwrap().bytes;
    let by_size = Keep { bytes: Some(bytes - 1), ..Keep::default() };
    assert_eq!(log.trim(&id("s"), &by_size).await.unwrap().turns, 1, "no more than has to go");
    let by_count = Keep { turns: Some(1), ..Keep::default() };
    assert_eq!(log.trim(&id("s"), &by_count).await.unwrap().turns, 2);
    let removed = log.removed();
    assert_eq!((removed.turns, removed.events), (5, 26));
    let all = Keep { turns: Some(0), ..Keep::default() };
    assert_eq!(log.trim(&id("s"), &all).await.unwrap().turns, 1);
    let kept = log.kept(&id("s")).unwrap();
    assert_eq!((kept.oldest, kept.head, kept.turns, kept.bytes), (Seq(32), Seq(31), 0, 0));
    let caught_up = CursorOutcome::CaughtUp { generation: log.head(&id("s")).unwrap().0, head: Seq(31) };
    assert_eq!(first_step(&log, "s", &at(31)).await, caught_up);
    let state = log.snapshot(&id("s")).unwrap().state;
    assert_eq!((state.counters.turns, state.items.len(), state.session.id), (6, 0, Some(id("s"))));
}

pub(super) async fn a_trim_never_touches_what_is_open(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = with_turns(&log, "s", 1).await;
    let waiting = Body::PromptAccepted { prompt: PromptId::from("p1"), key: None, content: vec![] };
    append(&mut appender, vec![Draft::new(waiting)]).await;
    say(&mut appender, 2, "while a prompt waits").await;
    append(&mut appender, vec![turn_started("t3"), item_started("t3", "i3")]).await;
    let nothing = Keep { since: Some(Time(u64::MAX)), bytes: Some(0), turns: Some(0) };
    let key = store(&log).session(&id("s")).unwrap().unwrap().key;
    until(|| store(&log).read(key, Seq(14), 9).unwrap().len() == 1).await;
    assert_eq!(log.trim(&id("s"), &nothing).await.unwrap().turns, 1, "only what is before the prompt");
    let state = log.snapshot(&id("s")).unwrap().state;
    assert_eq!((state.turns.len(), state.items.len(), state.queue.len()), (2, 2, 1));
    let withdrawn = Body::PromptWithdrawn { prompt: PromptId::from("p1") };
    append(&mut appender, vec![Draft::new(withdrawn)]).await;
    assert_eq!(trim(&log, "s", &nothing).await.turns, 1, "now the second turn may go");
    let state = log.snapshot(&id("s")).unwrap().state;
    assert_eq!((state.turns.len(), state.items.len(), state.turns[0].outcome), (1, 1, None));
}

pub(super) async fn a_cut_that_was_decided_on_another_base_is_refused(place: &dyn Place) {
    let log = log_on(place);
    drop(with_turns(&log, "s", 3).await);
    assert_eq!(keep_turns(&log, "s", 3, 2).await.turns, 1);
    let session = log.find(&id("s")).unwrap();
    let cut = |after: u64| Cut {
        after: Seq(after),
        base: State { seq: Seq(11), ..State::default() },
        gone: Gone::default(),
    };
    let before = log.snapshot(&id("s")).unwrap();
    assert!(!store(&log).trim(session.clone(), cut(0)).await.unwrap());
    assert_eq!(log.snapshot(&id("s")).unwrap(), before);
    let unknown = SessionId::from("nobody");
    assert!(matches!(log.trim(&unknown, &Keep::default()).await, Err(RemoveError::Unknown(_))));
    log.delete(&id("s")).await.unwrap();
    assert!(!store(&log).trim(session, cut(6)).await.unwrap(), "and so is one of a session that is gone");
}

pub(super) async fn a_follower_that_is_behind_a_trim_is_reset(place: &dyn Place) {
    let log = log_on(place);
    let appender = with_turns(&log, "s", 4).await;
    let mut behind = log.follow(&id("s"), &at(2)).unwrap();
    let mut tail = log.follow(&id("s"), &at(21)).unwrap();
    assert!(matches!(behind.next().await.unwrap(), Follow::Outcome(CursorOutcome::Replayed { .. })));
    assert!(matches!(tail.next().await.unwrap(), Follow::Outcome(CursorOutcome::CaughtUp { .. })));
    assert_eq!(keep_turns(&log, "s", 4, 1).await.turns, 3);
    let (generation, head) = log.head(&id("s")).unwrap();
    let reset = CursorOutcome::Reset { generation, reason: ResetReason::Trimmed, oldest: Seq(17), head };
    assert_eq!(behind.next().await.unwrap(), Follow::Outcome(reset));
    assert_eq!(seqs(&events(&mut behind, 21).await), [17, 18, 19, 20, 21]);
    let mut appender = appender;
    say(&mut appender, 5, "more").await;
    assert_eq!(seqs(&events(&mut tail, 26).await), [22, 23, 24, 25, 26], "one at the tail notices nothing");
}

pub(super) async fn a_trimmed_session_goes_on(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = with_turns(&log, "s", 2).await;
    assert_eq!(keep_turns(&log, "s", 2, 0).await.turns, 2);
    assert_eq!(log.head(&id("s")).unwrap().1, Seq(11));
    drop(appender);
    appender = log.claim(&id("s")).await.unwrap();
    assert_eq!(appender.head(), Seq(11));
    say(&mut appender, 3, "third").await;
    drop(appender);
    log.close().await;
    let log = log_on(place);
    let kept = log.read(&id("s"), Seq(11), 99).unwrap();
    assert_eq!(seqs(&kept), [12, 13, 14, 15, 16]);
    let state = log.snapshot(&id("s")).unwrap().state;
    assert_eq!((state.turns.len(), state.counters.turns, state.seq), (1, 3, Seq(16)));
    let mut appender = log.claim(&id("s")).await.unwrap();
    say(&mut appender, 4, "fourth").await;
    assert_eq!(keep_turns(&log, "s", 2, 1).await.turns, 1);
    assert_eq!(log.snapshot(&id("s")).unwrap().state.turns.len(), 1);
}
