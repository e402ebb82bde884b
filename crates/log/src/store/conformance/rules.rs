//! What holds for every store.

use super::support::*;
use super::*;
use crate::{AppendError, ClaimError, Committed, Follow};
use std::future::{Future, poll_fn};
use std::task::Poll;
use turnstream_model::cursor::{Cursor, Seq};
use turnstream_model::fold::Fold;

/// A long session: more than is kept in memory, with lines of very different lengths.
async fn long(log: &Log, name: &str) -> Vec<Committed> {
    let mut appender = talking(log, name).await;
    for number in 0..120 {
        let text = format!("{number} ").repeat(1 + number * 13 % 700);
        append(&mut appender, vec![delta("t1", "i1", &text), delta("t1", "i1", "x")]).await;
    }
    log.read(&id(name), Seq(0), usize::MAX).unwrap()
}

fn fold_of(events: &[Committed]) -> Fold {
    Fold::of(&events.iter().map(|event| event.event().unwrap()).collect::<Vec<_>>())
}

/// True if no method of the log shows anything after this event.
async fn shows_nothing_after(log: &Log, name: &str, seq: u64) -> bool {
    let cursor = Cursor { generation: None, seq: Seq(seq) };
    let mut follower = log.follow(&id(name), &cursor).unwrap();
    assert!(matches!(follower.next().await.unwrap(), Follow::Outcome(_)));
    let is_quiet = tokio::time::timeout(Duration::from_millis(30), follower.next()).await.is_err();
    is_quiet
        && log.head(&id(name)).unwrap().1 == Seq(seq)
        && log.read(&id(name), Seq(seq), 10).unwrap().is_empty()
        && log.snapshot(&id(name)).unwrap().state.seq == Seq(seq)
}

pub(super) async fn nothing_is_seen_before_its_commit(place: &dyn Place) {
    let gate = Gate::default();
    let log = place.open(gate.clone());
    let mut appender = talking(&log, "s").await;
    gate.shut(Side::Before);
    let receipt = appender.append(vec![delta("t1", "i1", "a")], NOW).await.unwrap();
    gate.arrival().await;
    assert!(shows_nothing_after(&log, "s", 3).await);
    gate.open();
    assert_eq!(receipt.await.unwrap(), Seq(4));
    assert_eq!(log.read(&id("s"), Seq(3), 10).unwrap().len(), 1);
}

pub(super) async fn a_commit_that_fails_is_not_seen_and_not_lost(place: &dyn Place) {
    let gate = Gate::default();
    let log = place.open(gate.clone());
    let mut appender = talking(&log, "s").await;
    gate.fail(2);
    assert_eq!(append(&mut appender, vec![delta("t1", "i1", "late")]).await, 4);
    // The notices of the outage follow.
    until(|| log.head(&id("s")).unwrap().1 == Seq(6)).await;
    let events = log.read(&id("s"), Seq(0), usize::MAX).unwrap();
    assert_eq!(seqs(&events), [1, 2, 3, 4, 5, 6]);
    assert_eq!(lines(&events).iter().filter(|line| line.contains("late")).count(), 1);
    log.close().await;
    assert_eq!(log_on(place).read(&id("s"), Seq(0), usize::MAX).unwrap(), events);
}

pub(super) async fn an_old_owner_is_refused_and_the_others_in_its_commit_are_not(place: &dyn Place) {
    let gate = Gate::default();
    let log = place.open(gate.clone());
    let (mut old, mut other, mut first) =
        (talking(&log, "s").await, talking(&log, "other").await, talking(&log, "first").await);
    gate.shut(Side::Before);
    // Blocks the writer, so that the next two appends share a commit.
    let held = first.append(vec![delta("t1", "i1", "f")], NOW).await.unwrap();
    gate.arrival().await;
    let refused = old.append(vec![delta("t1", "i1", "old")], NOW).await.unwrap();
    let accepted = other.append(vec![delta("t1", "i1", "b")], NOW).await.unwrap();
    let taking = tokio::spawn({
        let log = log.clone();
        async move { log.take_over(&id("s")).await.unwrap() }
    });
    until(|| store(&log).session(&id("s")).unwrap().unwrap().epoch == 2).await;
    gate.open();
    assert_eq!(held.await, Ok(Seq(4)));
    assert_eq!(refused.await, Err(AppendError::Fenced { session: "s".into(), ours: 1, current: 2 }));
    assert_eq!(accepted.await, Ok(Seq(4)));
    let mut new = taking.await.unwrap();
    assert_eq!((new.epoch(), new.head()), (2, Seq(3)));
    assert_eq!(append(&mut new, vec![delta("t1", "i1", "new")]).await, 4);
    let kept = lines(&log.read(&id("s"), Seq(0), usize::MAX).unwrap());
    assert!(kept.iter().all(|line| !line.contains("old")), "{kept:?}");
}

pub(super) async fn a_new_owner_knows_what_the_old_one_committed(place: &dyn Place) {
    let gate = Gate::default();
    let log = place.open(gate.clone());
    let mut old = talking(&log, "s").await;
    gate.shut(Side::Behind);
    let receipt = old.append(vec![delta("t1", "i1", "old")], NOW).await.unwrap();
    gate.arrival().await;
    let taking = tokio::spawn({
        let log = log.clone();
        async move {
            let new = log.take_over(&id("s")).await.unwrap();
            (log.read(&id("s"), Seq(0), usize::MAX).unwrap().len(), new.head(), new.epoch())
        }
    });
    until(|| store(&log).session(&id("s")).unwrap().unwrap().epoch == 2).await;
    // Long enough for a new owner that does not wait.
    tokio::time::sleep(Duration::from_millis(20)).await;
    gate.open();
    assert_eq!(receipt.await, Ok(Seq(4)));
    assert_eq!(taking.await.unwrap(), (4, Seq(4), 2));
}

pub(super) async fn old_and_new_owner_in_one_commit_are_told_apart(place: &dyn Place) {
    let gate = Gate::default();
    let log = place.open(gate.clone());
    let mut old = talking(&log, "s").await;
    let mut first = talking(&log, "first").await;
    let mut new = log.take_over(&id("s")).await.unwrap();
    gate.shut(Side::Before);
    let held = first.append(vec![delta("t1", "i1", "f")], NOW).await.unwrap();
    gate.arrival().await;
    let before = old.append(vec![delta("t1", "i1", "old")], NOW).await.unwrap();
    let kept = new.append(vec![delta("t1", "i1", "n1"), delta("t1", "i1", "n2")], NOW).await.unwrap();
    let after = old.append(vec![delta("t1", "i1", "old")], NOW).await.unwrap();
    gate.open();
    let fenced = Err(AppendError::Fenced { session: "s".into(), ours: 1, current: 2 });
    assert_eq!((held.await, before.await, after.await), (Ok(Seq(4)), fenced.clone(), fenced));
    assert_eq!(kept.await, Ok(Seq(5)));
    let events = log.read(&id("s"), Seq(0), usize::MAX).unwrap();
    assert_eq!(seqs(&events), [1, 2, 3, 4, 5]);
    log.close().await;
    assert_eq!(log_on(place).read(&id("s"), Seq(0), usize::MAX).unwrap(), events);
}

pub(super) async fn numbers_have_no_holes(place: &dyn Place) {
    let log = log_on(place);
    let mut tasks = Vec::new();
    for name in ["a", "b", "c"] {
        let log = log.clone();
        tasks.push(tokio::spawn(async move {
            let mut appender = talking(&log, name).await;
            for number in 4..200 {
                let receipt = appender.append(vec![delta("t1", "i1", "x")], NOW).await.unwrap();
                if number % 5 == 0 {
                    assert_eq!(receipt.await, Ok(Seq(number)));
                }
                if number % 50 == 0 {
                    appender = log.take_over(&id(name)).await.unwrap();
                    assert_eq!(appender.head(), Seq(number), "what was there is known to the new owner");
                }
            }
            append(&mut appender, vec![delta("t1", "i1", "last")]).await
        }));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), 200);
    }
    log.close().await;
    let log = log_on(place);
    for name in ["a", "b", "c"] {
        let kept = log.read(&id(name), Seq(0), usize::MAX).unwrap();
        assert_eq!(seqs(&kept), (1..=200).collect::<Vec<u64>>());
        assert_eq!(log.claim(&id(name)).await.unwrap().head(), Seq(200));
    }
}

pub(super) async fn every_cursor_reads_exactly_the_rest(place: &dyn Place) {
    let log = log_on(place);
    let all = long(&log, "s").await;
    let last = all.len() as u64;
    log.close().await;
    let log = log_on(place);
    for after in 0..=last {
        let rest = &all[after as usize..];
        assert_eq!(log.read(&id("s"), Seq(after), usize::MAX).unwrap(), rest);
        assert_eq!(log.read(&id("s"), Seq(after), 3).unwrap(), rest[..rest.len().min(3)]);
        let cursor = Cursor { generation: None, seq: Seq(after) };
        let mut follower = log.follow(&id("s"), &cursor).unwrap();
        if !rest.is_empty() {
            assert_eq!(events(&mut follower, last).await, rest);
        }
    }
}

pub(super) async fn a_read_begins_where_it_is_asked_to_and_has_no_hole(place: &dyn Place) {
    let log = log_on(place);
    let all = long(&log, "s").await;
    log.close().await;
    let log = log_on(place);
    let key = store(&log).session(&id("s")).unwrap().unwrap().key;
    for from in 1..=all.len() {
        for max_bytes in [1, 2_000, 70_000] {
            let read = store(&log).read(key, Seq(from as u64), max_bytes).unwrap();
            assert!(!read.is_empty());
            assert_eq!(read, all[from - 1..][..read.len()]);
            let bytes: usize = read.iter().map(|event| event.json().len()).sum();
            assert!(read.len() == 1 || bytes <= max_bytes, "{bytes} bytes for {max_bytes}");
        }
    }
    assert!(store(&log).read(key, Seq(all.len() as u64 + 1), 1_000).unwrap().is_empty());
}

pub(super) async fn a_snapshot_is_the_fold_at_its_seq(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = talking(&log, "s").await;
    let writing = tokio::spawn(async move {
        for number in 0..300 {
            append(&mut appender, vec![delta("t1", "i1", &format!("{number} "))]).await;
        }
        append(&mut appender, vec![turn_ended("t1")]).await
    });
    let mut seen = Vec::new();
    while !writing.is_finished() {
        seen.push(log.snapshot(&id("s")).unwrap().state);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let last = writing.await.unwrap();
    let all = log.read(&id("s"), Seq(0), usize::MAX).unwrap();
    for state in seen {
        assert_eq!(state, fold_of(&all[..state.seq.0 as usize]).into_state());
    }
    log.close().await;
    let log = log_on(place);
    let state = log.snapshot(&id("s")).unwrap().state;
    assert_eq!(state.seq, Seq(last));
    assert_eq!(state, fold_of(&all).into_state());
    let key = store(&log).session(&id("s")).unwrap().unwrap().key;
    let stored = store(&log).fold(key).unwrap().into_state();
    assert_eq!(stored, fold_of(&all[..stored.seq.0 as usize]).into_state());
}

pub(super) async fn open_turns_are_found_by_the_epoch_that_started_them(place: &dyn Place) {
    let log = log_on(place);
    drop(talking(&log, "s").await);
    let mut done = talking(&log, "done").await;
    append(&mut done, vec![turn_ended("t1")]).await;
    log.close().await;
    let open_turn = |turn: &str, epoch| Abandoned { session: id("s"), turn: turn.into(), epoch };

    let log = log_on(place);
    assert_eq!(abandoned(&log), [open_turn("t1", 1)]);
    let mut next = log.claim(&id("s")).await.unwrap();
    assert!(abandoned(&log).is_empty(), "it has an owner now");
    append(&mut next, vec![turn_started("t2")]).await;
    log.close().await;

    let log = log_on(place);
    assert_eq!(abandoned(&log), [open_turn("t1", 1), open_turn("t2", 2)]);
    let mut next = log.claim(&id("s")).await.unwrap();
    append(&mut next, vec![turn_ended("t1"), turn_ended("t2")]).await;
    log.close().await;
    assert!(abandoned(&log_on(place)).is_empty());
}

pub(super) async fn a_session_has_one_owner_at_a_time(place: &dyn Place) {
    let log = log_on(place);
    let first = log.create(&id("s")).await.unwrap();
    assert!(matches!(log.create(&id("s")).await, Err(ClaimError::Exists(name)) if name == "s"));
    assert!(matches!(log.claim(&id("x")).await, Err(ClaimError::Unknown(name)) if name == "x"));
    assert!(matches!(log.claim(&id("s")).await, Err(ClaimError::Held(name)) if name == "s"));
    let second = log.take_over(&id("s")).await.unwrap();
    drop(first);
    assert!(matches!(log.claim(&id("s")).await, Err(ClaimError::Held(_))), "the second has it");
    drop(second);
    let claims = (0..8).map(|_| {
        let log = log.clone();
        tokio::spawn(async move { log.claim(&id("s")).await })
    });
    let mut won = Vec::new();
    for claim in claims.collect::<Vec<_>>() {
        won.extend(claim.await.unwrap());
    }
    assert_eq!(won.iter().map(|appender| appender.epoch()).collect::<Vec<_>>(), [3]);
    log.close().await;
    assert_eq!(log_on(place).claim(&id("s")).await.unwrap().epoch(), 4, "epochs are never given again");
}

pub(super) async fn a_creator_that_was_taken_over_before_it_knew_is_refused(place: &dyn Place) {
    let log = log_on(place);
    let name = id("s");
    let mut creating = Box::pin(log.create(&name));
    // Polled, perhaps answered, and not read.
    let early = poll_fn(|context| Poll::Ready(creating.as_mut().poll(context))).await;
    until(|| store(&log).session(&name).unwrap().is_some()).await;
    let mut new = log.take_over(&name).await.unwrap();
    append(&mut new, vec![created("s"), turn_started("t1"), turn_ended("t1")]).await;
    drop(new);
    // Nothing of the session is in memory any more.
    until(|| store(&log).session(&name).unwrap().is_some_and(|known| known.head == Seq(3))).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut creator = match early {
        Poll::Ready(creator) => creator.unwrap(),
        Poll::Pending => creating.await.unwrap(),
    };
    assert_eq!((creator.epoch(), creator.head()), (1, Seq(3)));
    let refused = creator.append(vec![turn_started("t2")], NOW).await.unwrap().await;
    assert_eq!(refused, Err(AppendError::Fenced { session: "s".into(), ours: 1, current: 2 }));
    assert_eq!(seqs(&log.read(&name, Seq(0), usize::MAX).unwrap()), [1, 2, 3]);
}

pub(super) async fn a_claim_that_nobody_waits_for_leaves_the_session_free(place: &dyn Place) {
    let log = log_on(place);
    drop(log.create(&id("s")).await.unwrap());
    for wait in 0..40 {
        let (other, name) = (log.clone(), id("s"));
        let claim = tokio::spawn(async move { other.claim(&name).await.map(drop) });
        tokio::time::sleep(Duration::from_micros(wait * 50)).await;
        claim.abort();
        // Aborted, granted or refused: the session must be free in each case.
        let _ = claim.await;
        let session = log.find(&id("s")).unwrap();
        // Polled, and dropped together with its answer.
        let claiming = store(&log).claim(session, ClaimMode::TakeOver);
        tokio::time::sleep(Duration::from_millis(1)).await;
        drop(claiming);
    }
    let is_free = async {
        while log.claim(&id("s")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), is_free).await.unwrap();
}

pub(super) async fn every_session_has_a_summary(place: &dyn Place) {
    let log = log_on(place);
    for name in ["z", "a", "m"] {
        let mut appender = talking(&log, name).await;
        append(&mut appender, vec![turn_ended("t1")]).await;
    }
    log.close().await;
    let log = log_on(place);
    assert_eq!(log.sessions().unwrap(), ["z", "a", "m"].map(id));
    for summary in log.summaries().unwrap() {
        let whole = log.snapshot(&summary.id).unwrap().state;
        if let Some(state) = summary.state {
            assert_eq!((state.seq, &state.session), (whole.seq, &whole.session));
        }
    }
}

pub(super) async fn more_than_a_commit_may_hold_goes_into_several(place: &dyn Place) {
    let gate = Gate::default();
    let log = place.open_with(gate.clone(), &Options { budget: 256 << 20, ..options() });
    let mut first = talking(&log, "first").await;
    let (names, text) = (["a", "b"], "x".repeat(22 << 20));
    let mut appenders = Vec::new();
    for name in names {
        appenders.push(talking(&log, name).await);
    }
    let small = gate.commits().len();
    gate.shut(Side::Before);
    let held = first.append(vec![delta("t1", "i1", "f")], NOW).await.unwrap();
    gate.arrival().await;
    let mut receipts = vec![held];
    for appender in &mut appenders {
        for _ in 0..2 {
            receipts.push(appender.append(vec![delta("t1", "i1", &text)], NOW).await.unwrap());
        }
    }
    gate.open();
    for receipt in receipts {
        receipt.await.unwrap();
    }
    let large: Vec<usize> = gate.commits()[small + 1..].iter().map(|bytes| bytes >> 20).collect();
    assert_eq!(large, [66, 22], "four of 22 MiB");
    log.close().await;
    let log = log_on(place);
    for name in names {
        let kept = log.read(&id(name), Seq(3), usize::MAX).unwrap();
        assert_eq!(seqs(&kept), [4, 5]);
        assert!(kept.iter().all(|event| event.json().len() > text.len()));
    }
}
