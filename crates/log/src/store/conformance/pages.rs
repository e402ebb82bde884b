//! What holds for pages of a session's history, on every store.

use super::support::*;
use super::*;
use crate::{Committed, EventsPage, EventsQuery, ItemsPage, ItemsQuery, Keep, PageError, ReadError, Trimmed};
use serde_json::json;
use turnstream_model::cursor::{Cursor, Generation, Seq};
use turnstream_model::event::{Body, Draft, ItemState, Origin};
use turnstream_model::fold::{Fold, Item, State};
use turnstream_model::id::{AttemptId, ItemId, PromptId, TurnId};

fn items_page(log: &Log, before: Option<&ItemId>, limit: usize) -> ItemsPage {
    log.items_page(&id("s"), &ItemsQuery { before: before.cloned(), limit }).unwrap()
}

fn events_page(log: &Log, from: Option<Cursor>, limit: usize) -> Result<EventsPage, PageError> {
    log.events_page(&id("s"), &EventsQuery { from, limit })
}

fn at(seq: u64) -> Option<Cursor> {
    Some(Cursor { generation: None, seq: Seq(seq) })
}

/// All pages, newest first, while nothing is written.
fn all_pages(log: &Log, limit: usize) -> Vec<ItemsPage> {
    let mut pages = vec![items_page(log, None, limit)];
    while let Some(next) = pages.last().unwrap().next.clone() {
        pages.push(items_page(log, Some(&next), limit));
        assert!(pages.len() < 1_000, "they come to an end");
    }
    pages
}

/// Asserts that the pages equal the snapshot: each item once, newest first, and every turn and taken prompt.
fn pages_are(log: &Log, state: &State) {
    for limit in [1, 2, 3, 7, 500] {
        let pages = all_pages(log, limit);
        let items: Vec<&Item> = pages.iter().flat_map(|page| &page.items).collect();
        assert_eq!(items, state.items.iter().rev().collect::<Vec<_>>(), "{limit} at a time");
        let turns: Vec<&TurnId> = pages[0].turns.iter().map(|turn| &turn.turn).collect();
        let on_page = |turn: &Option<TurnId>| turn.as_ref().is_some_and(|turn| turns.contains(&turn));
        let approvals = state.approvals.iter().filter(|ask| ask.is_open() || on_page(&ask.turn));
        assert_eq!(pages[0].approvals, approvals.cloned().collect::<Vec<_>>(), "{limit} at a time");
        let questions = state.questions.iter().filter(|asked| asked.is_open() || on_page(&asked.turn));
        assert_eq!(pages[0].questions, questions.cloned().collect::<Vec<_>>(), "{limit} at a time");
        assert_eq!(pages[0].queue, state.queue, "{limit} at a time");
        for page in &pages[1..] {
            assert!(page.approvals.is_empty() && page.questions.is_empty() && page.queue.is_empty());
        }
        for page in &pages {
            assert!(page.items.len() <= limit);
            assert_eq!(page.head, state.seq);
            for turn in page.items.iter().filter_map(|item| item.turn.as_ref()) {
                let known = state.turns.iter().find(|known| known.turn == *turn);
                assert_eq!(page.turns.iter().find(|known| known.turn == *turn), known, "of its items");
            }
        }
        for turn in &state.turns {
            assert!(pages.iter().any(|page| page.turns.contains(turn)), "{} of {limit}", turn.turn);
        }
        for prompt in state.prompts.iter().filter(|prompt| prompt.turn.is_some()) {
            assert!(pages.iter().any(|page| page.prompts.contains(prompt)), "{}", prompt.prompt);
        }
    }
}

fn accepted(prompt: &str) -> Draft {
    let content = vec![json!({"type": "text", "text": prompt})];
    Draft::new(Body::PromptAccepted { prompt: PromptId::from(prompt), key: None, content })
}

fn taken(prompt: &str, turn: &str) -> [Draft; 2] {
    let prompt = PromptId::from(prompt);
    let body = Body::TurnStarted { origin: Origin::Prompt, prompts: vec![prompt.clone()], native_id: None };
    let started = Draft { turn: Some(TurnId::from(turn)), ..Draft::new(body) };
    let taken = Draft { turn: Some(TurnId::from(turn)), ..Draft::new(Body::PromptTaken { prompt }) };
    [started, taken]
}

fn superseded(turn: &str, items: &[&str]) -> Draft {
    let items = items.iter().map(|item| ItemId::from(*item)).collect();
    let body = Body::AttemptSuperseded { by: AttemptId::from("b"), items };
    Draft { turn: Some(TurnId::from(turn)), attempt: Some(AttemptId::from("a")), ..Draft::new(body) }
}

fn removed(item: &str) -> Draft {
    Draft { item: Some(ItemId::from(item)), ..Draft::new(Body::ItemRemoved) }
}

/// A session with turns with many items or none, removed items, and an open last turn.
fn eventful(turns: usize) -> Vec<Vec<Draft>> {
    let mut steps = vec![vec![created("s")]];
    let mut items = 0;
    for turn in 1..=turns {
        let (name, prompt) = (format!("t{turn}"), format!("p{turn}"));
        steps.push([vec![accepted(&prompt)], taken(&prompt, &name).to_vec()].concat());
        for _ in 0..(turn * 5) % 7 {
            items += 1;
            let item = format!("i{items}");
            steps.push(vec![item_started(&name, &item), delta(&name, &item, &"word ".repeat(items * 40))]);
            match items % 5 {
                0 => steps.push(vec![superseded(&name, &[&item])]),
                1 => {}
                _ => steps.push(vec![item_ended(&name, &item, ItemState::Completed)]),
            }
        }
        if turn % 3 == 0 && items > 2 {
            steps.push(vec![removed(&format!("i{}", items - 1))]);
        }
        if turn < turns {
            steps.push(vec![turn_ended(&name)]);
        }
    }
    steps
}

pub(super) async fn pages_are_the_snapshot_cut_into_pieces(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = log.create(&id("s")).await.unwrap();
    for (step, drafts) in eventful(9).into_iter().enumerate() {
        append(&mut appender, drafts).await;
        if step % 4 == 0 {
            // Some events are stored by now and some are not.
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        pages_are(&log, &log.snapshot(&id("s")).unwrap().state);
    }
    drop(appender);
    log.close().await;
    let log = log_on(place);
    pages_are(&log, &log.snapshot(&id("s")).unwrap().state);
}

pub(super) async fn a_page_agrees_with_the_log_at_its_head(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = log.create(&id("s")).await.unwrap();
    append(&mut appender, vec![created("s")]).await;
    let writing = tokio::spawn(async move {
        for drafts in eventful(60).into_iter().skip(1) {
            append(&mut appender, drafts).await;
        }
    });
    let mut seen = Vec::new();
    while !writing.is_finished() {
        seen.push(items_page(&log, None, 4));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    writing.await.unwrap();
    let all: Vec<_> = log.read(&id("s"), Seq(0), usize::MAX).unwrap();
    let events: Vec<_> = all.iter().map(|event| event.event().unwrap()).collect();
    for page in seen {
        let state = Fold::of(&events[..page.head.0 as usize]).into_state();
        let newest: Vec<&Item> = state.items.iter().rev().take(4).collect();
        assert_eq!(page.items.iter().collect::<Vec<_>>(), newest, "at {}", page.head);
    }
}

pub(super) async fn pages_go_on_where_they_were_while_items_come_and_go(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = log.create(&id("s")).await.unwrap();
    append(&mut appender, vec![created("s")]).await;
    for number in 1..=12 {
        say(&mut appender, number, "text").await;
    }
    let key = store(&log).session(&id("s")).unwrap().unwrap().key;
    until(|| store(&log).size(key).unwrap().turns == 12).await;
    let names = |page: &ItemsPage| page.items.iter().map(|item| item.id.to_string()).collect::<Vec<_>>();
    let first = items_page(&log, None, 4);
    assert_eq!(names(&first), ["i12", "i11", "i10", "i9"]);
    // The item at which the next page begins is removed, others are added, and neither is stored yet.
    append(&mut appender, vec![removed("i9"), removed("i8")]).await;
    say(&mut appender, 13, "text").await;
    let second = items_page(&log, first.next.as_ref(), 4);
    assert_eq!(names(&second), ["i7", "i6", "i5", "i4"]);
    until(|| store(&log).size(key).unwrap().turns == 13).await;
    assert_eq!(
        names(&items_page(&log, first.next.as_ref(), 4)),
        ["i7", "i6", "i5", "i4"],
        "when it is stored"
    );
    let third = items_page(&log, second.next.as_ref(), 4);
    assert_eq!((names(&third), third.next), (vec!["i3".into(), "i2".into(), "i1".into()], None));
    assert_eq!(names(&items_page(&log, None, 2)), ["i13", "i12"]);
    // An item that has just begun, and one that never existed.
    append(&mut appender, vec![turn_started("t14"), item_started("t14", "i14"), item_started("t14", "i15")])
        .await;
    assert_eq!(names(&items_page(&log, Some(&ItemId::from("i15")), 2)), ["i14", "i13"]);
    append(&mut appender, vec![removed("i15")]).await;
    assert_eq!(names(&items_page(&log, Some(&ItemId::from("i15")), 2)), ["i14", "i13"]);
    for never in ["i16", "i", "x", "i-1"] {
        let query = ItemsQuery { before: Some(ItemId::from(never)), limit: 2 };
        let refused = log.items_page(&id("s"), &query);
        assert!(matches!(refused, Err(PageError::UnknownItem { .. })), "{never}: {refused:?}");
    }
}

pub(super) async fn a_page_of_large_items_is_cut_and_goes_on(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = log.create(&id("s")).await.unwrap();
    append(&mut appender, vec![created("s")]).await;
    let large = "x".repeat(1_500_000);
    for number in 1..=6 {
        say(&mut appender, number, &large).await;
        if number == 4 {
            let key = store(&log).session(&id("s")).unwrap().unwrap().key;
            until(|| store(&log).size(key).unwrap().turns == 4).await;
        }
    }
    let pages = all_pages(&log, 500);
    let counts: Vec<usize> = pages.iter().map(|page| page.items.len()).collect();
    assert_eq!(counts, [2, 2, 2]);
    let mut from = None;
    let mut events: Vec<Committed> = Vec::new();
    loop {
        let page = events_page(&log, from, 500).unwrap();
        let bytes: usize = page.events.iter().map(|event| event.json().len()).sum();
        assert!(bytes < 5_000_000, "{bytes}");
        events.extend(page.events);
        let Some(next) = page.next else { break };
        from = at(next.0);
    }
    assert_eq!(events, log.read(&id("s"), Seq(0), usize::MAX).unwrap());
    // An item that is larger than a page gets its own page.
    say(&mut appender, 7, &"y".repeat(6_000_000)).await;
    assert_eq!(items_page(&log, None, 500).items.len(), 1);
}

pub(super) async fn pages_of_events_are_the_log(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = log.create(&id("s")).await.unwrap();
    for drafts in eventful(9) {
        append(&mut appender, drafts).await;
    }
    let all = log.read(&id("s"), Seq(0), usize::MAX).unwrap();
    let (generation, head) = log.head(&id("s")).unwrap();
    for limit in [1, 7, 500] {
        let (mut from, mut read) = (None, Vec::new());
        loop {
            let page = events_page(&log, from, limit).unwrap();
            assert_eq!((&page.generation, page.oldest, page.head), (&generation, Seq(1), head));
            read.extend(page.events);
            let Some(next) = page.next else { break };
            from = Some(Cursor { generation: Some(generation.clone()), seq: next });
        }
        assert_eq!(read, all);
    }
    let behind = events_page(&log, at(head.0 + 1), 5).unwrap();
    assert_eq!((behind.events.len(), behind.next), (0, None), "nothing yet");
    let beyond = events_page(&log, at(head.0 + 2), 5);
    assert!(matches!(beyond, Err(PageError::BeyondHead { .. })), "{beyond:?}");
    let foreign = Cursor { generation: Some(Generation::new("another").unwrap()), seq: Seq(1) };
    let foreign = events_page(&log, Some(foreign), 5);
    assert!(matches!(foreign, Err(PageError::Generation { .. })), "{foreign:?}");
    let unknown = log.items_page(&id("nobody"), &ItemsQuery { before: None, limit: 1 });
    assert!(matches!(unknown, Err(PageError::Read(ReadError::Unknown(_)))), "{unknown:?}");
}

pub(super) async fn a_page_of_a_trimmed_session_has_what_is_kept(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = log.create(&id("s")).await.unwrap();
    append(&mut appender, vec![created("s")]).await;
    for number in 1..=6 {
        say(&mut appender, number, "text").await;
    }
    let key = store(&log).session(&id("s")).unwrap().unwrap().key;
    let keep = Keep { turns: Some(2), ..Keep::default() };
    until(|| store(&log).size(key).unwrap().turns == 6).await;
    let trimming = async {
        while log.trim(&id("s"), &keep).await.unwrap() == Trimmed::default() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), trimming).await.unwrap();
    let state = log.snapshot(&id("s")).unwrap().state;
    assert_eq!(state.items.len(), 2);
    pages_are(&log, &state);
    let gone = items_page(&log, Some(&ItemId::from("i3")), 5);
    assert_eq!((gone.items.len(), gone.next, gone.oldest), (0, None, Seq(22)));
    let oldest = events_page(&log, None, 3).unwrap();
    assert_eq!((oldest.oldest, oldest.events[0].seq()), (Seq(22), Seq(22)));
    let trimmed = events_page(&log, at(21), 3);
    assert!(
        matches!(trimmed, Err(PageError::Read(ReadError::Trimmed { oldest: Seq(22), .. }))),
        "{trimmed:?}"
    );
    // An item that continues.
    say(&mut appender, 7, "more").await;
    pages_are(&log, &log.snapshot(&id("s")).unwrap().state);
}
