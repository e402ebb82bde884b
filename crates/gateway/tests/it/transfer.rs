//! Sessions that leave and come in: what their agents hear of it.

use crate::puppet::*;
use crate::support::*;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use turnstream_agents::Command;
use turnstream_gateway::{Gateway, ImportAs, ImportError, Spool};
use turnstream_model::event::SessionPatch;
use turnstream_model::fold::Activity;
use turnstream_model::id::SessionId;
use turnstream_model::signal::Signal;

/// The whole file of a session.
pub(crate) async fn file(gateway: &Gateway, id: &SessionId) -> String {
    let mut export = gateway.export(id, Duration::ZERO).await.unwrap();
    let mut file = export.header().to_json() + "\n";
    while let Some(events) = export.next().await.unwrap() {
        for event in events {
            file.push_str(std::str::from_utf8(event.json()).unwrap());
            file.push('\n');
        }
    }
    file
}

pub(crate) async fn spooled(gateway: &Gateway, file: &str) -> Spool {
    let mut spool = gateway.spool().await.unwrap();
    // In pieces that end anywhere.
    for piece in file.as_bytes().chunks(1_000) {
        spool.write(piece).await.unwrap();
    }
    spool
}

/// An agent that gives every session it is not asked for a name of its own, and one turn for each prompt.
async fn named(home: &Home, asked_for: Arc<Mutex<Vec<Option<String>>>>) -> Gateway {
    stage(home, false, move |start, mut commands, observer| {
        let asked_for = asked_for.clone();
        async move {
            let links = {
                let mut asked = asked_for.lock().unwrap();
                asked.push(start.native_id.clone());
                asked.len()
            };
            let name = start.native_id.unwrap_or_else(|| format!("native-{links}"));
            let patch = SessionPatch { native_id: Some(name), ..SessionPatch::default() };
            let _ = observer.signal(Signal::Session(patch)).await;
            while let Some(command) = commands.recv().await {
                if let Command::Prompt { native_id, .. } = command {
                    began(&observer, &native_id, &[&native_id]).await;
                    says(&observer, &format!("item of {native_id}")).await;
                    let _ = observer.signal(done(&native_id)).await;
                }
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_does_not_talk_to_the_session_of_the_original() {
    let home = Home::new();
    let asked_for = Arc::new(Mutex::new(Vec::new()));
    let gateway = named(&home, asked_for.clone()).await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    settled(&gateway, &id, 1).await;
    let file = file(&gateway, &id).await;
    let copy = gateway.import(spooled(&gateway, &file).await, ImportAs::New, None).await.unwrap();
    let copy = id_of(&copy.info);
    let before = gateway.snapshot(&copy).await.unwrap().state;
    assert_eq!(before.session.native_id.as_deref(), Some("native-1"), "the log says what it said");

    prompt(&gateway, &copy, json!([])).await;
    let after = settled(&gateway, &copy, 2).await;
    assert_eq!(after.state.session.native_id.as_deref(), Some("native-2"));
    home.close(gateway).await;
    let gateway = named(&home, asked_for.clone()).await;
    for id in [&copy, &id] {
        prompt(&gateway, id, json!([])).await;
        settled(&gateway, id, if *id == copy { 3 } else { 2 }).await;
    }
    let names = ["native-2", "native-1"].map(|name| Some(name.to_owned()));
    let asked: Vec<Option<String>> = asked_for.lock().unwrap().clone();
    assert_eq!(asked, [None, None, names[0].clone(), names[1].clone()], "each goes on with its own");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_imports_of_one_session_at_once_one_succeeds() {
    let (home, other) = (Home::new(), Home::new());
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "Hi"}])).await;
    settled(&gateway, &id, 1).await;
    let file = file(&gateway, &id).await;
    let there = other.open().await;
    let (one, two) = (spooled(&there, &file).await, spooled(&there, &file).await);
    let done =
        tokio::join!(there.import(one, ImportAs::Itself, None), there.import(two, ImportAs::Itself, None));
    let (made, refused) = match done {
        (Ok(made), Err(refused)) | (Err(refused), Ok(made)) => (made, refused),
        other => panic!("{other:?}"),
    };
    assert_eq!((id_of(&made.info), refused), (id.clone(), ImportError::Exists(id.clone())));
    assert_eq!(there.sessions().len(), 1);
    assert_eq!(there.snapshot(&id).await.unwrap().state, gateway.snapshot(&id).await.unwrap().state);
    home.close(gateway).await;
    other.close(there).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_nobody_waits_for_is_there_whole_or_not_at_all() {
    let (home, other) = (Home::new(), Home::new());
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([{"do": "burst", "count": 500, "bytes": 2_000}])).await;
    settled(&gateway, &id, 1).await;
    let file = file(&gateway, &id).await;
    let there = other.open().await;
    for round in 0..20 {
        let spool = spooled(&there, &file).await;
        let _ = tokio::time::timeout(Duration::from_millis(round), there.import(spool, ImportAs::New, None))
            .await;
    }
    // In whatever order they end, the next one comes after them.
    there.import(spooled(&there, &file).await, ImportAs::Itself, None).await.unwrap();
    let expected = gateway.snapshot(&id).await.unwrap().state;
    for info in there.sessions() {
        assert_eq!(there.snapshot(&id_of(&info)).await.unwrap().state.items, expected.items);
    }
    home.close(gateway).await;
    other.close(there).await;
}

/// A file in which one member of one line says something else. It is refused with its line, or the session
/// works.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_which_anything_is_changed_is_refused_with_its_line_or_works() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    let script = json!([{"do": "text", "text": "Hi"}, {"do": "tool", "title": "Write"}]);
    prompt(&gateway, &id, script).await;
    settled(&gateway, &id, 1).await;
    let file = file(&gateway, &id).await;
    let odd = [
        json!(null),
        json!(u64::MAX),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("\u{0}\u{202e}../|<script>`\r\n\u{2028}"),
        json!("x".repeat(3_000)),
        json!([[[[[]]]]]),
        json!({"a": {"b": {"c": null}}}),
        json!(true),
    ];
    let lines: Vec<&str> = file.lines().collect();
    let (mut refused, mut taken) = (0, 0);
    for (number, line) in lines.iter().enumerate() {
        let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        for name in members.keys() {
            for value in &odd {
                let mut members = members.clone();
                members.insert(name.clone(), value.clone());
                let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
                lines[number] = serde_json::Value::Object(members).to_string();
                let changed = lines.join("\n") + "\n";
                let what = format!("line {}, {name}: {value}", number + 1);
                match gateway.import(spooled(&gateway, &changed).await, ImportAs::New, None).await {
                    Ok(made) => {
                        let copy = id_of(&made.info);
                        gateway.snapshot(&copy).await.unwrap();
                        let again = self::file(&gateway, &copy).await;
                        let of = |file: &str| file.lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
                        assert_eq!(of(&again).len(), of(&changed).len(), "{what}");
                        let parsed = |lines: Vec<String>| -> Vec<Value> {
                            let mut events: Vec<Value> =
                                lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
                            // A time that is changed may change those after it.
                            for event in events.iter_mut().filter(|_| name == "time") {
                                event["time"].take();
                            }
                            events
                        };
                        if !value.is_null() {
                            assert_eq!(parsed(of(&again)), parsed(of(&changed)), "{what}");
                        }
                        gateway
                            .import(spooled(&gateway, &again).await, ImportAs::New, None)
                            .await
                            .expect(&what);
                        taken += 1;
                    }
                    Err(ImportError::File(bad)) => {
                        assert!(bad.line >= 1, "{what}: {bad:?}");
                        refused += 1;
                    }
                    Err(error) => panic!("{what}: {error:?}"),
                }
            }
        }
    }
    assert!(refused > 100 && taken > 10, "{refused} refused, {taken} taken");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_an_agent_that_is_not_here_can_be_imported_and_deleted() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "Hi"}])).await;
    settled(&gateway, &id, 1).await;
    let file = file(&gateway, &id).await.replace("\"agent\":\"scripted\"", "\"agent\":\"elsewhere\"");
    let copy =
        id_of(&gateway.import(spooled(&gateway, &file).await, ImportAs::New, None).await.unwrap().info);
    assert_eq!(gateway.session(&copy).unwrap().session.agent, "elsewhere");
    assert_eq!(gateway.delete(&copy).await, Ok(turnstream_gateway::Deleted::Erased));
    // And again under the id it has, a moment after that was deleted.
    assert_eq!(gateway.delete(&id).await, Ok(turnstream_gateway::Deleted::Erased));
    let again = gateway.import(spooled(&gateway, &file).await, ImportAs::Itself, None).await.unwrap();
    assert_eq!(id_of(&again.info), id);
    assert_eq!(gateway.delete(&id).await, Ok(turnstream_gateway::Deleted::Erased));
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn times_that_run_backwards_in_a_file_are_mended_and_told() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "Hi"}])).await;
    settled(&gateway, &id, 1).await;
    let file = file(&gateway, &id).await;
    let sound = gateway.import(spooled(&gateway, &file).await, ImportAs::New, None).await.unwrap();
    assert_eq!(sound.mended_times, 0);

    // The second event is of the year 2100, so all later ones are before it.
    let later = 4_102_444_800_000_u64;
    let mut lines: Vec<Value> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines[2]["time"] = later.into();
    let changed: Vec<String> = lines.iter().map(Value::to_string).collect();
    let changed = changed.join("\n");
    let made = gateway.import(spooled(&gateway, &changed).await, ImportAs::New, None).await.unwrap();
    assert_eq!(made.mended_times, lines.len() as u64 - 3);
    assert_eq!(serde_json::to_value(&made).unwrap()["mended_times"], made.mended_times);
    let copy = crate::transfer::file(&gateway, &id_of(&made.info)).await;
    let events = copy.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let times: Vec<u64> = events.map(|event| event["time"].as_u64().unwrap()).collect();
    assert!(times.is_sorted() && times[1..].iter().all(|time| *time == later), "{times:?}");
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_not_stored_by_its_deadline_leaves_nothing() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "Hi"}])).await;
    settled(&gateway, &id, 1).await;
    let file = file(&gateway, &id).await;
    let passed = Some(tokio::time::Instant::now());
    let refused = gateway.import(spooled(&gateway, &file).await, ImportAs::New, passed).await;
    assert_eq!(refused.unwrap_err(), ImportError::TooSlow);
    assert_eq!(gateway.sessions().len(), 1);
    gateway.import(spooled(&gateway, &file).await, ImportAs::New, None).await.unwrap();
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_all_sessions_has_what_each_session_says_of_itself() {
    let home = Home::new();
    let gateway = home.open().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(session(&gateway, &home, "scripted").await);
    }
    prompt(&gateway, &ids[1], json!([{"do": "text", "text": "Hi"}])).await;
    settled(&gateway, &ids[1], 1).await;
    // The list learns of an event a moment after the log.
    while gateway.session(&ids[1]).unwrap().session.status != Activity::Idle {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let check = |gateway: &Gateway| {
        let listed = gateway.sessions();
        let one_by_one: Vec<_> = listed.iter().map(|info| gateway.session(&id_of(info)).unwrap()).collect();
        assert_eq!(listed, one_by_one);
        assert_eq!(listed.len(), 3);
        assert!(listed.iter().any(|info| info.head.0 > 8), "events that are perhaps only in memory count");
    };
    check(&gateway);
    home.close(gateway).await;
    let gateway = home.open().await;
    check(&gateway);
    home.close(gateway).await;
}
