//! What search guarantees: complete entries, once each, in one order, by the given filters.

use super::support::{NOW, append, created, delta, id, item_ended, item_started, turn_ended, turn_started};
use super::{Place, log_on};
use crate::{Appender, Log, MOST_HITS, Page, Query, SearchError, Subject};
use serde_json::json;
use std::time::Duration;
use turnstream_model::event::{Body, Draft, Field, ItemKind, ItemState, Role, Tool};
use turnstream_model::id::{AttemptId, ItemId, PromptId, TurnId};
use turnstream_model::time::Time;

fn query(words: &str) -> Query {
    Query { words: words.to_owned(), ..Query::default() }
}

async fn page(log: &Log, query: &Query) -> Page {
    log.flush().await;
    log.search(query).unwrap_or_else(|error| panic!("{query:?}: {error}"))
}

fn names(page: &Page) -> Vec<String> {
    let name = |subject: &Subject| match subject {
        Subject::Item(item) => item.to_string(),
        Subject::Prompt(prompt) => prompt.to_string(),
    };
    page.hits.iter().map(|hit| name(&hit.subject)).collect()
}

async fn found(log: &Log, words: &str) -> Vec<String> {
    names(&page(log, &query(words)).await)
}

fn of_item(item: &str, body: Body) -> Draft {
    Draft { turn: Some(TurnId::from("t1")), item: Some(ItemId::from(item)), ..Draft::new(body) }
}

fn revised(item: &str, state: Option<ItemState>, text: Option<&str>) -> Draft {
    let text = text.map(str::to_owned);
    of_item(item, Body::ItemRevised { late: true, state, text, tool: None })
}

fn prompt(name: &str, text: &str) -> Draft {
    let content = vec![json!({"type": "text", "text": text})];
    Draft::new(Body::PromptAccepted { prompt: PromptId::from(name), key: None, content })
}

/// A session with an open turn.
async fn session(log: &Log, name: &str) -> Appender {
    let mut appender = log.create(&id(name)).await.unwrap();
    append(&mut appender, vec![created(name), turn_started("t1")]).await;
    appender
}

fn said(item: &str, text: &str) -> Vec<Draft> {
    let ended = item_ended("t1", item, ItemState::Completed);
    vec![item_started("t1", item), delta("t1", item, text), ended]
}

async fn say(appender: &mut Appender, item: &str, text: &str) {
    append(appender, said(item, text)).await;
}

pub(super) async fn a_finished_item_is_found_by_words_phrases_and_beginnings(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = session(&log, "s").await;
    say(&mut appender, "i1", "The retry policy of max_count in src/lib.rs").await;
    say(&mut appender, "i2", "Crème brûlée, parseQueryString and a policy of retries 全文検索です").await;
    for (words, items) in [
        ("policy", &["i2", "i1"][..]),
        ("POLICY retry", &["i1"]),
        ("\"policy of retries\"", &["i2"]),
        ("\"retries of policy\"", &[]),
        ("retr*", &["i2", "i1"]),
        ("retr", &[]),
        ("policy -retry", &["i2"]),
        ("count", &["i1"]),
        ("max_count", &["i1"]),
        ("src/li*", &["i1"]),
        ("creme", &["i2"]),
        ("query", &["i2"]),
        ("parsequerystring", &["i2"]),
        ("検索", &["i2"]),
        ("索検", &[]),
    ] {
        assert_eq!(found(&log, words).await, items, "{words}");
    }
    let hit = page(&log, &query("retry")).await.hits.remove(0);
    let marked: Vec<(&str, bool)> = hit.snippet.iter().map(|part| (part.text.as_str(), part.hit)).collect();
    assert_eq!(marked, [("The ", false), ("retry", true), (" policy of max_count in src/lib.rs", false)]);
    assert_eq!((hit.session, hit.agent.as_str()), (id("s"), "scripted"));
    assert_eq!((hit.turn, hit.kind), (Some(TurnId::from("t1")), ItemKind::Message));
}

pub(super) async fn what_is_not_whole_is_never_found(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = session(&log, "s").await;
    append(&mut appender, vec![item_started("t1", "i1"), delta("t1", "i1", "word")]).await;
    assert_eq!(found(&log, "word").await, [""; 0], "it streams");
    for (number, state) in
        [ItemState::Abandoned, ItemState::Failed, ItemState::Unknown].into_iter().enumerate()
    {
        let item = format!("i{}", number + 2);
        let ended = item_ended("t1", &item, state);
        append(&mut appender, vec![item_started("t1", &item), delta("t1", &item, "word"), ended]).await;
    }
    let body =
        Body::ItemEnded { state: ItemState::Completed, reason: None, incomplete: true, caused_by: None };
    let tainted = vec![item_started("t1", "i9"), delta("t1", "i9", "word"), of_item("i9", body)];
    append(&mut appender, tainted).await;
    assert_eq!(found(&log, "word").await, [""; 0]);
    append(&mut appender, vec![revised("i9", None, Some("the whole word"))]).await;
    assert_eq!(found(&log, "word").await, ["i9"], "nothing of it is missing any more");
}

pub(super) async fn what_is_taken_back_is_not_found_any_more(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = session(&log, "s").await;
    say(&mut appender, "i1", "one word").await;
    say(&mut appender, "i2", "two word").await;
    say(&mut appender, "i3", "three word").await;
    assert_eq!(found(&log, "word").await, ["i3", "i2", "i1"]);
    let (by, items) = (AttemptId::from("a2"), vec![ItemId::from("i1")]);
    let superseded = Draft {
        turn: Some(TurnId::from("t1")),
        attempt: Some(AttemptId::from("a1")),
        ..Draft::new(Body::AttemptSuperseded { by, items })
    };
    let begun = |attempt: &str| Draft {
        turn: Some(TurnId::from("t1")),
        attempt: Some(AttemptId::from(attempt)),
        ..Draft::new(Body::AttemptStarted { step: 1, model: None, native_id: None })
    };
    append(&mut appender, vec![begun("a1"), begun("a2"), superseded]).await;
    append(&mut appender, vec![of_item("i2", Body::ItemRemoved)]).await;
    assert_eq!(found(&log, "word").await, ["i3"]);
    // Said and removed before anyone could search.
    append(&mut appender, [said("i4", "four word"), vec![of_item("i4", Body::ItemRemoved)]].concat()).await;
    append(&mut appender, vec![revised("i3", Some(ItemState::Unknown), None)]).await;
    assert_eq!(found(&log, "word").await, [""; 0]);
}

pub(super) async fn a_revision_is_found_and_what_it_replaced_is_not(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = session(&log, "s").await;
    say(&mut appender, "i1", "before").await;
    say(&mut appender, "i2", "before").await;
    assert_eq!(found(&log, "before").await, ["i2", "i1"]);
    append(&mut appender, vec![turn_ended("t1"), revised("i1", None, Some("after and before"))]).await;
    assert_eq!(found(&log, "after").await, ["i1"]);
    assert_eq!(found(&log, "before").await, ["i2", "i1"], "it keeps its place");
    append(&mut appender, vec![revised("i1", None, Some("after"))]).await;
    assert_eq!(found(&log, "before").await, ["i2"]);
    let replaced = Body::ItemReplaced { field: Field::Text, text: "instead".into() };
    append(&mut appender, vec![of_item("i2", replaced)]).await;
    assert_eq!((found(&log, "before").await, found(&log, "instead").await), (vec![], vec!["i2".to_owned()]));
}

pub(super) async fn what_the_user_said_is_found_until_it_is_withdrawn(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = session(&log, "s").await;
    append(&mut appender, vec![prompt("p1", "my question"), prompt("p2", "my second question")]).await;
    let hits = page(&log, &Query { role: Some(Role::User), ..query("question") }).await.hits;
    let asked: Vec<_> = hits.into_iter().map(|hit| (hit.subject, hit.kind, hit.role)).collect();
    let expected = |name: &str| (Subject::Prompt(PromptId::from(name)), ItemKind::Message, Some(Role::User));
    assert_eq!(asked, [expected("p2"), expected("p1")]);
    let taken = Draft {
        turn: Some(TurnId::from("t1")),
        ..Draft::new(Body::PromptTaken { prompt: PromptId::from("p1") })
    };
    let withdrawn = Draft::new(Body::PromptWithdrawn { prompt: PromptId::from("p2") });
    append(&mut appender, vec![taken, withdrawn]).await;
    let hits = page(&log, &query("question")).await.hits;
    assert_eq!(hits.len(), 1);
    assert_eq!((&hits[0].subject, &hits[0].turn), (&expected("p1").0, &Some(TurnId::from("t1"))));
}

pub(super) async fn filters_let_through_what_fits_all_of_them(place: &dyn Place) {
    let log = log_on(place);
    let mut one = session(&log, "one").await;
    let mut two = log.create(&id("two")).await.unwrap();
    let body = Body::SessionCreated {
        session: id("two"),
        agent: "Other agent!".into(),
        cwd: "/w".into(),
        title: None,
        key: None,
    };
    append(&mut two, vec![Draft::new(body), turn_started("t1")]).await;
    let tool = Tool {
        name: Some("bash".into()),
        input: Some(json!({"command": "cargo test --word"})),
        ..Tool::default()
    };
    let (kind, role, synthetic, text, native_id) = (ItemKind::Tool, None, false, None, None);
    let started = Body::ItemStarted { kind, role, synthetic, text, tool: Some(Box::new(tool)), native_id };
    append(&mut one, vec![of_item("i1", started), item_ended("t1", "i1", ItemState::Completed)]).await;
    one.append(said("i2", "a word"), NOW.plus_millis(1_000)).await.unwrap().await.unwrap();
    two.append(said("i3", "a word"), NOW.plus_millis(9_000_000)).await.unwrap().await.unwrap();
    // Not before the last event, although the clock says so.
    append(&mut two, vec![prompt("p1", "a word")]).await;
    let all = query("word");
    let later = |millis: u64| Some(NOW.plus_millis(millis));
    let between = |from: u64, to: u64| Query { from: later(from), to: later(to), ..all.clone() };
    let mut everything = found(&log, "word").await;
    everything.sort();
    assert_eq!(everything, ["i1", "i2", "i3", "p1"]);
    for (filtered, items) in [
        (Query { session: Some(id("one")), ..all.clone() }, &["i1", "i2"][..]),
        (Query { agent: Some("Other agent!".into()), ..all.clone() }, &["i3", "p1"]),
        (Query { agent: Some("Other".into()), ..all.clone() }, &[]),
        (Query { kind: Some(ItemKind::Tool), ..all.clone() }, &["i1"]),
        (Query { kind: Some(ItemKind::Message), session: Some(id("one")), ..all.clone() }, &["i2"]),
        (Query { role: Some(Role::User), ..all.clone() }, &["p1"]),
        (Query { role: Some(Role::Assistant), ..all.clone() }, &["i2", "i3"]),
        (between(1_000, 1_001), &["i2"]),
        (between(1_001, 9_000_000), &[]),
        (between(1_001, 9_000_001), &["i3", "p1"]),
        (between(0, 1_000), &["i1"]),
        (Query { from: Some(Time(0)), to: Some(NOW), ..all.clone() }, &[]),
        (Query { from: later(9_000_001), ..all.clone() }, &[]),
        (Query { to: Some(Time(u64::MAX)), role: Some(Role::User), ..all.clone() }, &["p1"]),
    ] {
        let mut names = names(&page(&log, &filtered).await);
        names.sort();
        assert_eq!(names, items, "{filtered:?}");
    }
    let unknown = Query { session: Some(id("nobody")), ..all };
    assert!(matches!(log.search(&unknown), Err(SearchError::Read(crate::ReadError::Unknown(_)))));
}

pub(super) async fn pages_neither_skip_nor_repeat_while_more_is_written(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = session(&log, "s").await;
    for number in 0..57 {
        say(&mut appender, &format!("i{number}"), "the word").await;
    }
    append(&mut appender, vec![item_started("t1", "late"), delta("t1", "late", "the word")]).await;
    let mut asked = Query { limit: Some(10), ..query("word") };
    let (mut all, mut pages) = (Vec::new(), 0);
    loop {
        let page = page(&log, &asked).await;
        all.extend(names(&page));
        pages += 1;
        assert!(page.hits.len() <= 10 && pages < 20);
        let Some(next) = page.next else { break };
        asked.cursor = Some(next);
        // New items, an item that began earlier and ends now, a removed one, and a changed one.
        say(&mut appender, &format!("new{pages}"), "the word").await;
        match pages {
            1 => drop(append(&mut appender, vec![item_ended("t1", "late", ItemState::Completed)]).await),
            2 => drop(append(&mut appender, vec![of_item("i3", Body::ItemRemoved)]).await),
            3 => drop(append(&mut appender, vec![revised("i50", None, Some("the word again"))]).await),
            _ => {}
        }
    }
    let expected: Vec<String> =
        (0..57).rev().filter(|number| *number != 3).map(|number| format!("i{number}")).collect();
    assert_eq!(all, expected);
    let newest = names(&page(&log, &Query { limit: Some(1), ..query("word") }).await);
    assert_eq!(newest, [format!("new{}", pages - 1)]);
}

pub(super) async fn without_patience_pages_still_come_to_the_end_with_everything_once(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = session(&log, "s").await;
    for number in 0..12 {
        say(&mut appender, &format!("i{number}"), "a word beginning with more").await;
    }
    for words in ["word", "\"a word\" -less", "beginni*"] {
        let mut asked = Query { patience: Some(Duration::ZERO), ..query(words) };
        let mut all = Vec::new();
        loop {
            let page = page(&log, &asked).await;
            all.extend(names(&page));
            assert!(!page.is_incomplete || page.next.is_some(), "{words}: it says where to go on");
            let Some(next) = page.next else { break };
            assert!(asked.cursor.as_ref() != Some(&next) && all.len() <= 12, "{words}: it gets on");
            asked.cursor = Some(next);
        }
        let expected: Vec<String> = (0..12).rev().map(|number| format!("i{number}")).collect();
        assert_eq!(all, expected, "{words}");
    }
}

pub(super) async fn an_odd_query_finds_something_or_is_refused_with_a_reason(place: &dyn Place) {
    let log = log_on(place);
    let mut appender = session(&log, "s").await;
    say(&mut appender, "i1", "NEAR and far: \"quotes\" OR (not) x^y col:line 🚀 do-not 100% _under_").await;
    for words in [
        "\"quotes",
        "near",
        "AND far",
        "not",
        "OR",
        "line:",
        "col:line",
        "(not)",
        "^y",
        "x^y",
        "🚀",
        "do-not",
        "100%",
        "_under_",
        "\"not) x\"",
        "far\0quotes",
        "qu* ",
        "{line}",
        "near(far)* OR -zebra",
    ] {
        let found = log.search(&query(words));
        log.flush().await;
        assert!(found.is_ok(), "{words}: {found:?}");
    }
    for words in ["\"quotes", "near", "col:line", "🚀", "do-not", "_under_", "NEAR -zebra"] {
        assert_eq!(found(&log, words).await, ["i1"], "{words}");
    }
    assert_eq!(found(&log, "_s1").await, [""; 0], "a tag is no word");
    let (many, short) = ("qu* ".repeat(200), "a* b* c* ".repeat(100));
    let long = "x".repeat(10_240);
    for words in
        ["", " ", "\"", "*", "-", "--", "^:(){}", "\".,;\"", "-zebra", "\0", "q*", &long, &many, &short]
    {
        assert!(matches!(log.search(&query(words)), Err(SearchError::Words(_))), "{words:?}");
    }
    for limit in [0, MOST_HITS + 1] {
        let asked = Query { limit: Some(limit), ..query("near") };
        assert!(matches!(log.search(&asked), Err(SearchError::Limit(_))));
    }
    for cursor in ["", "1", "x-1", "1-", "-1", "1-2-3", "1--2", "1-99999999999999999999", "dead-1"] {
        let asked = Query { cursor: Some(cursor.to_owned()), ..query("near") };
        assert!(matches!(log.search(&asked), Err(SearchError::Cursor(_))), "{cursor}");
    }
}
