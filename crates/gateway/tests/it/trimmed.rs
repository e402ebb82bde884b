//! Sessions whose beginning was trimmed leave and come in: they are the same in the other place, and begin
//! as late.

use crate::removal::{quick, round};
use crate::support::*;
use crate::transfer::{file, spooled};
use serde_json::{Map, Value, json};
use turnstream_gateway::{Fault, Gateway, ImportAs, ImportError, Retention};
use turnstream_log::Follow;
use turnstream_model::check::{Checker, Tail};
use turnstream_model::cursor::{Cursor, CursorOutcome, Generation, Seq};
use turnstream_model::event::Event;
use turnstream_model::export::Header;
use turnstream_model::fold::{Fold, State};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// A session of which one turn is left, and its file.
async fn trimmed(home: &mut Home) -> (Gateway, SessionId, String) {
    home.settings.retention = quick(Retention { max_turns: Some(1), ..Retention::default() });
    let gateway = home.open().await;
    let id = session(&gateway, home, "scripted").await;
    for text in ["first", "second"] {
        let script = json!([{"do": "text", "text": text}, {"do": "tool", "title": "Write"}]);
        gateway.prompt(&id, keyed(text, script)).await.unwrap();
        until(&gateway, &id, "the turn", |snapshot| {
            snapshot.state.turns.iter().all(|turn| turn.outcome.is_some())
                && snapshot.state.items.iter().any(|item| item.text.as_deref() == Some(text))
        })
        .await;
    }
    round(&gateway, |round| round.turns > 0).await;
    let whole = file(&gateway, &id).await;
    (gateway, id, whole)
}

/// What a client of a session is told that comes with this place.
async fn told(gateway: &Gateway, id: &SessionId, seq: u64) -> Value {
    let mut follower = gateway.follow(id, &Cursor { generation: None, seq: Seq(seq) }).unwrap();
    let Follow::Outcome(outcome) = follower.next().await.unwrap() else { panic!("an outcome comes first") };
    let mut outcome = match outcome {
        CursorOutcome::Reset { reason, oldest, head, .. } => json!([reason, oldest, head]),
        CursorOutcome::Replayed { from, to, head, .. } => json!([from, to, head]),
        CursorOutcome::CaughtUp { head, .. } => json!([head]),
    };
    if let Follow::Events(events) = follower.next().await.unwrap() {
        outcome.as_array_mut().unwrap().push(json!(events[0].seq()));
    }
    outcome
}

/// The header without what differs by its nature.
fn header(file: &str) -> Map<String, Value> {
    let mut header: Map<String, Value> = serde_json::from_str(file.lines().next().unwrap()).unwrap();
    header.remove("generation").unwrap();
    header.remove("exported").unwrap();
    header
}

fn events(file: &str) -> Vec<&str> {
    file.lines().skip(1).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trimmed_session_is_the_same_in_another_place_and_goes_on_there() {
    let (mut home, other) = (Home::new(), Home::new());
    let (gateway, id, there) = trimmed(&mut home).await;
    assert!(header(&there)["first"].as_u64().unwrap() > 1);
    assert_eq!(header(&there)["format"], 2);
    let mut checker = Checker::new();
    there.lines().for_each(|line| checker.line(line));
    assert_eq!(checker.finish(Tail::Settled).violations, []);

    let here = other.open().await;
    here.import(spooled(&here, &there).await, ImportAs::Itself, None).await.unwrap();
    let again = file(&here, &id).await;
    assert_eq!((header(&again), events(&again)), (header(&there), events(&there)));
    assert_ne!(again.lines().next(), there.lines().next(), "its cursors are not those of the first");
    let state = gateway.snapshot(&id).await.unwrap().state;
    assert_eq!(here.snapshot(&id).await.unwrap().state, state);
    for seq in 0..state.seq.0 {
        assert_eq!(told(&here, &id, seq).await, told(&gateway, &id, seq).await, "from {seq} on");
    }
    let copy = id_of(&here.import(spooled(&here, &there).await, ImportAs::New, None).await.unwrap().info);
    let copied = file(&here, &copy).await;
    assert_eq!(events(&copied), events(&there));
    let mut renamed = header(&there);
    renamed["session"] = json!(copy);
    renamed["base"]["session"]["id"] = json!(copy);
    assert_eq!(header(&copied), renamed, "two members say which session it is");

    // A prompt of the trimmed part is not run again, and the next ids are new.
    let first = here.prompt(&id, keyed("first", json!([{"do": "text", "text": "again"}]))).await.unwrap();
    assert_eq!(first.prompt.as_str(), "p1");
    prompt(&here, &id, json!([{"do": "text", "text": "third"}])).await;
    let later = settled(&here, &id, 2).await.state;
    assert_eq!((later.counters.turns, later.turns[1].turn.as_str()), (3, "t3"));
    here.close().await;
    let here = other.open().await;
    assert_eq!(here.snapshot(&id).await.unwrap().state.items, later.items);
    here.close().await;
    gateway.close().await;
}

/// One member of the base says something else. The file is refused with its line, or the session works.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_whose_base_anything_is_changed_is_refused_with_its_line_or_works() {
    let mut home = Home::new();
    let (gateway, _, whole) = trimmed(&mut home).await;
    let original: Value = serde_json::from_str(whole.lines().next().unwrap()).unwrap();
    let odd = [
        json!(null),
        json!(0),
        json!(u64::MAX),
        json!(-1),
        json!("../x"),
        json!([]),
        json!([{}]),
        json!({"a": 1}),
        json!({"items": u64::MAX}),
    ];
    let (mut refused, mut taken) = (0, 0);
    let members: Vec<String> = original["base"].as_object().unwrap().keys().cloned().collect();
    let counted: Vec<String> = original["base"]["counters"].as_object().unwrap().keys().cloned().collect();
    let places = members.iter().map(|name| format!("/base/{name}"));
    let places = places.chain(counted.iter().map(|name| format!("/base/counters/{name}")));
    for place in places.chain(["/base".to_owned(), "/first".to_owned(), "/head".to_owned()]) {
        for value in &odd {
            let mut header = original.clone();
            *header.pointer_mut(&place).unwrap() = value.clone();
            let changed = format!("{header}\n{}\n", events(&whole).join("\n"));
            match gateway.import(spooled(&gateway, &changed).await, ImportAs::New, None).await {
                Ok(made) => {
                    let again = file(&gateway, &id_of(&made.info)).await;
                    assert_eq!(events(&again), events(&whole), "{place}: {value}");
                    taken += 1;
                }
                Err(ImportError::File(bad)) => {
                    assert!(bad.line >= 1 && bad.fault != Fault::Newer, "{place}: {value}: {bad:?}");
                    refused += 1;
                }
                Err(error) => panic!("{place}: {value}: {error:?}"),
            }
        }
    }
    assert!(refused > 50 && taken > 0, "{refused} refused, {taken} taken");
    gateway.close().await;
}

/// A base in which item i2 is open, and its header in front of as many events.
fn open_base(head: u64) -> Header {
    let events = [
        json!({"seq": 1, "time": 1, "type": "session.created", "session": "ses_1", "agent": "scripted", "cwd": "/w"}),
        json!({"seq": 2, "time": 1, "type": "item.started", "item": "i1", "kind": "message", "text": ""}),
        json!({"seq": 3, "time": 1, "type": "item.ended", "item": "i1", "state": "completed"}),
        json!({"seq": 4, "time": 1, "type": "item.started", "item": "i2", "kind": "message", "text": "a"}),
    ];
    let events: Vec<Event> =
        events.iter().map(|event| Event::from_json(&event.to_string()).unwrap()).collect();
    let (base, _) = Fold::of(&events).into_state().trimmed(Time(1));
    Header {
        turnstream: "0.1.0".to_owned(),
        session: SessionId::from("ses_1"),
        agent: "scripted".to_owned(),
        generation: Generation::new("g1").unwrap(),
        first: Seq(5),
        head: Seq(head),
        exported: Time(1),
        left_out: 0,
        base: Some(Box::new(base)),
    }
}

/// What is open in a base begins nowhere in the events, and its ids were counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_contradicts_itself_or_the_events_is_refused_with_its_line() {
    let home = Home::new();
    let gateway = home.open().await;
    let ends = |seq: u64, item: &str| json!({"seq": seq, "time": 2, "type": "item.ended", "item": item, "state": "completed"});
    let begins = json!({"seq": 5, "time": 2, "type": "item.started", "item": "i2", "parent": "i1", "kind": "message", "text": ""});
    let uncounted = |base: &mut State| base.counters.items = 1;
    let doubled = |base: &mut State| base.items.push(base.items[0].clone());
    type Change = fn(&mut State);
    let refused: [(Change, Vec<Value>, usize, &str); 4] = [
        (uncounted, vec![ends(5, "i2")], 1, "i2 is ahead"),
        (doubled, vec![ends(5, "i2")], 1, "i2 begins here"),
        (|_| {}, vec![begins, ends(6, "i2")], 2, "i2 begins here"),
        (|_| {}, vec![ends(5, "i9")], 2, "the file ends while item i2 is open"),
    ];
    for (change, events, line, problem) in refused {
        let mut header = open_base(4 + events.len() as u64);
        change(header.base.as_deref_mut().unwrap());
        let lines: Vec<String> = events.iter().map(Value::to_string).collect();
        let file = format!("{}\n{}\n", header.to_json(), lines.join("\n"));
        match gateway.import(spooled(&gateway, &file).await, ImportAs::New, None).await {
            Err(ImportError::File(bad)) => {
                assert!(bad.line == line && bad.problem.starts_with(problem), "{problem}: {bad:?}");
            }
            other => panic!("{problem}: {other:?}"),
        }
    }
    let sound = format!("{}\n{}\n", open_base(5).to_json(), ends(5, "i2"));
    let made = gateway.import(spooled(&gateway, &sound).await, ImportAs::New, None).await.unwrap().info;
    let items = gateway.snapshot(&id_of(&made)).await.unwrap().state.items;
    assert_eq!(items.iter().map(|item| item.text.as_deref()).collect::<Vec<_>>(), [Some("a")]);
    gateway.close().await;
}
