//! What holds for imported sessions.

use super::support::*;
use super::*;
use crate::{AppendError, ClaimError, Committed, Imported, Importer, Keep, ReadError};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Body, Draft, Event, ItemState};
use turnstream_model::fold::{Applied, Fold};
use turnstream_model::time::Time;

/// The events of an imported session.
fn events() -> Vec<Event> {
    let mut drafts: Vec<Draft> = vec![created("s"), turn_started("t1"), item_started("t1", "i1")];
    // If deltas were merged, there would be fewer.
    drafts.extend((0..200).map(|number| delta("t1", "i1", &format!("{number} ").repeat(100))));
    drafts.push(item_ended("t1", "i1", turnstream_model::event::ItemState::Completed));
    drafts.push(turn_ended("t1"));
    let placed = |(index, draft): (usize, Draft)| draft.at(Seq(index as u64 + 1), Time(17 * index as u64));
    drafts.into_iter().enumerate().map(placed).collect()
}

async fn filled(log: &Log, events: &[Event]) -> Importer {
    let mut importer = log.import(&id("s")).await.unwrap();
    for some in events.chunks(70) {
        importer.append(some.to_vec()).await.unwrap();
    }
    importer
}

fn read(log: &Log) -> Vec<Event> {
    let events = log.read(&id("s"), Seq(0), usize::MAX).unwrap();
    events.iter().map(|event: &Committed| event.event().unwrap()).collect()
}

/// True if no method of the log shows the session.
fn is_unseen(log: &Log) -> bool {
    matches!(log.head(&id("s")), Err(ReadError::Unknown(_)))
        && log.sessions().unwrap().is_empty()
        && abandoned(log).is_empty()
        && log.imported(&id("s")).unwrap().is_none()
}

pub(super) async fn an_import_is_seen_whole_or_not_at_all(place: &dyn Place) {
    let options = Options { merge: crate::Merge::AdjacentDeltas, ..options() };
    let log = place.open_with(Gate::default(), &options);
    let events = events();
    let mut importer = filled(&log, &events[..150]).await;
    assert!(is_unseen(&log));
    assert!(matches!(log.create(&id("s")).await, Err(ClaimError::Exists(_))), "its id is taken");
    assert!(matches!(log.import(&id("s")).await, Err(ClaimError::Exists(_))));
    assert!(matches!(log.claim(&id("s")).await, Err(ClaimError::Unknown(_))));
    let misplaced = importer.append(vec![events[180].clone()]).await;
    let (session, expected, found) = ("s".to_owned(), Seq(151), Seq(181));
    assert_eq!(misplaced, Err(AppendError::OutOfPlace { session, expected, found }));
    importer.append(events[150..].to_vec()).await.unwrap();
    assert!(is_unseen(&log), "also when all of it is there");
    let generation = importer.finish(Some("native".to_owned())).await.unwrap();

    let head = Seq(events.len() as u64);
    assert_eq!(log.head(&id("s")).unwrap(), (generation, head));
    assert_eq!(read(&log), events, "with the places and times they had");
    assert_eq!(log.snapshot(&id("s")).unwrap().state, Fold::of(&events).into_state());
    assert_eq!(log.sessions().unwrap(), [id("s")]);
    assert!(abandoned(&log).is_empty());
    assert_eq!(log.imported(&id("s")).unwrap(), Some(Imported { native_id: Some("native".to_owned()) }));
    let mut appender = log.claim(&id("s")).await.unwrap();
    assert_eq!(append(&mut appender, vec![turn_started("t2")]).await, head.0 + 1, "it goes on");
    drop(appender);
    log.close().await;
    let log = log_on(place);
    assert_eq!(read(&log)[..events.len()], events);
    assert!(log.imported(&id("s")).unwrap().is_some());
}

pub(super) async fn an_import_that_is_given_up_leaves_its_id_free(place: &dyn Place) {
    let log = log_on(place);
    let events = events();
    drop(filled(&log, &events[..100]).await);
    until(|| is_unseen(&log)).await;
    let again = loop {
        match log.import(&id("s")).await {
            Ok(importer) => break importer,
            Err(ClaimError::Exists(_)) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(error) => panic!("{error}"),
        }
    };
    drop(again);
    let importer = filled(&log, &events).await;
    importer.finish(None).await.unwrap();
    assert_eq!(read(&log), events);
    log.close().await;
    let log = log_on(place);
    assert_eq!(log.sessions().unwrap(), [id("s")]);
    assert_eq!(read(&log), events);
}

pub(super) async fn a_failing_disk_leaves_no_notice_in_an_import(place: &dyn Place) {
    let gate = Gate::default();
    let log = place.open(gate.clone());
    let mut other = talking(&log, "other").await;
    let events = events();
    let mut importer = log.import(&id("s")).await.unwrap();
    for some in events.chunks(70) {
        gate.fail(2);
        importer.append(some.to_vec()).await.unwrap();
    }
    gate.fail(2);
    append(&mut other, vec![delta("t1", "i1", "a")]).await;
    // Live sessions get the notice.
    until(|| log.head(&id("other")).unwrap().1 == Seq(6)).await;
    importer.finish(None).await.unwrap();
    assert_eq!(read(&log), events);
}

pub(super) async fn a_finish_that_nobody_waits_for_shows_all_or_nothing(place: &dyn Place) {
    let log = log_on(place);
    let events = events();
    for _ in 0..20 {
        let importer = match log.import(&id("s")).await {
            Ok(mut importer) => {
                importer.append(events.clone()).await.unwrap();
                importer
            }
            Err(ClaimError::Exists(_)) => break,
            Err(error) => panic!("{error}"),
        };
        // Polled once and then dropped. Whether it was done by then, the log shows below.
        let mut finish = Box::pin(importer.finish(None));
        std::future::poll_fn(|context| {
            let _ = std::future::Future::poll(finish.as_mut(), context);
            std::task::Poll::Ready(())
        })
        .await;
    }
    // A claim after all the others.
    drop(log.create(&id("last")).await.unwrap());
    let seen = log.sessions().unwrap();
    assert!(seen.iter().all(|seen| [id("s"), id("last")].contains(seen)), "{seen:?}");
    if seen.contains(&id("s")) {
        assert_eq!(read(&log), events);
    }
}

pub(super) async fn a_trimmed_session_is_imported_as_it_is(place: &dyn Place) {
    let log = log_on(place);
    let waiting = Body::PromptAccepted { prompt: "p1".into(), key: None, content: vec![] };
    let mut drafts = vec![created("s"), turn_started("t1"), item_started("t1", "i1"), Draft::new(waiting)];
    // Open at the cut, but not at the head.
    drafts.push(Draft { turn: None, ..item_started("t1", "i2") });
    drafts.push(item_ended("t1", "i1", ItemState::Completed));
    drafts.push(turn_ended("t1"));
    let cut = drafts.len();
    drafts.push(Draft { turn: None, ..item_ended("t1", "i2", ItemState::Completed) });
    drafts.push(Draft::new(Body::PromptWithdrawn { prompt: "p1".into() }));
    drafts.push(turn_started("t2"));
    drafts.push(turn_ended("t2"));
    let placed = |(index, draft): (usize, Draft)| draft.at(Seq(index as u64 + 1), Time(17 * index as u64));
    let events: Vec<Event> = drafts.into_iter().enumerate().map(placed).collect();
    let (base, _) = Fold::of(&events[..cut]).into_state().trimmed(events[cut - 1].time);
    assert_eq!((base.items.len(), base.queue.len()), (1, 1));
    for (name, rest) in [("s", &events[cut..]), ("nothing more", &[])] {
        let mut importer = log.import_after(&id(name), base.clone()).await.unwrap();
        if !rest.is_empty() {
            let misplaced = importer.append(vec![events[cut - 1].clone()]).await;
            assert!(matches!(misplaced, Err(AppendError::OutOfPlace { .. })), "{misplaced:?}");
            importer.append(rest.to_vec()).await.unwrap();
        }
        importer.finish(None).await.unwrap();
    }
    let mut whole = Fold::from(base.clone());
    for event in &events[cut..] {
        assert_eq!(whole.apply(event), Applied::Yes);
    }
    let (oldest, head) = (Seq(cut as u64 + 1), Seq(events.len() as u64));
    for log in [log.clone(), {
        log.clone().close().await;
        drop(log);
        log_on(place)
    }] {
        assert_eq!(log.base(&id("s")).unwrap(), base);
        assert_eq!(log.base(&id("nothing more")).unwrap(), base);
        assert_eq!(log.snapshot(&id("s")).unwrap().state, *whole.state());
        assert_eq!(log.snapshot(&id("nothing more")).unwrap().state, base);
        let kept = log.kept(&id("s")).unwrap();
        assert_eq!((kept.oldest, kept.head, kept.turns), (oldest, head, 1));
        let kept = log.kept(&id("nothing more")).unwrap();
        assert_eq!((kept.oldest, kept.head, kept.turns, kept.bytes), (oldest, Seq(cut as u64), 0, 0));
        let read = log.read(&id("s"), Seq(0), 9);
        assert!(matches!(read, Err(ReadError::Trimmed { .. })), "{read:?}");
        let read = log.read(&id("s"), Seq(cut as u64), usize::MAX).unwrap();
        let read: Vec<Event> = read.iter().map(|event| event.event().unwrap()).collect();
        assert_eq!(read, events[cut..]);
    }
    let log = log_on(place);
    for name in ["s", "nothing more"] {
        let mut appender = log.claim(&id(name)).await.unwrap();
        let head = log.head(&id(name)).unwrap().1;
        assert_eq!(append(&mut appender, vec![turn_started("t9"), turn_ended("t9")]).await, head.0 + 2);
        drop(appender);
        let all = Keep { turns: Some(0), ..Keep::default() };
        let turns = if name == "s" { 2 } else { 0 };
        until(|| log.kept(&id(name)).unwrap().turns > 0).await;
        log.flush().await;
        // The waiting prompt in the base of the second session is older than its events, and still there.
        assert_eq!(log.trim(&id(name), &all).await.unwrap().turns, turns, "{name}");
    }
}
