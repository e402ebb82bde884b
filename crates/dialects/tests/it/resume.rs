//! The law of every dialect, on every log of the corpus: a client that comes back has the same conversation
//! as one that never left. By default at every eleventh place; `TURNSTREAM_FULL=1` tries all.

use super::ag_ui_client::Thread;
use super::ai_sdk_client::Page;
use super::captured_logs;
use super::client::Screen;
use super::opencode_client::Store;
use serde_json::Value;
use std::collections::BTreeSet;
use turnstream_dialects::acp::Acp;
use turnstream_dialects::ag_ui::AgUi;
use turnstream_dialects::ai_sdk::AiSdk;
use turnstream_dialects::native::Native;
use turnstream_dialects::opencode::Opencode;
use turnstream_dialects::{Dialect, FrameSink, Repeats, for_each_dialect};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Event, Kind, Line};
use turnstream_model::fold::{Fold, State};

/// One line of a log with its type, as it was committed.
struct Kept(Event, Kind, String);

/// A frame: its name, its JSON.
type Frame = (Option<String>, String);

#[derive(Default)]
struct Written(Vec<Frame>);

impl FrameSink for Written {
    fn frame(&mut self, name: Option<&str>, json: &[u8]) {
        let json = String::from_utf8(json.to_vec()).unwrap();
        assert!(!json.contains('\n') && json.starts_with("{\""), "one line with a member: {json}");
        self.0.push((name.map(str::to_owned), json));
    }
}

fn kept(log: Vec<Event>) -> Vec<Kept> {
    let keep = |event: Event| {
        let json = event.to_json();
        Kept(event, Kind::of_line(json.as_bytes()), json)
    };
    log.into_iter().map(keep).collect()
}

/// The frames of each of these events.
fn encode<D: Dialect>(mut dialect: D, log: &[Kept]) -> Vec<Vec<Frame>> {
    let frames = |Kept(event, kind, json): &Kept| {
        let mut out = Written::default();
        dialect.encode(&Line::new(event.seq, kind, json.as_bytes()), &mut out).unwrap();
        out.0
    };
    log.iter().map(frames).collect()
}

/// What a client has: its screen in the form in which two of them are compared.
type Client = fn(&[Frame]) -> Has;

#[derive(Debug, PartialEq)]
enum Has {
    Screen(Box<Screen>),
    Store(Box<Store>),
    Thread(Box<Thread>),
    Page(Page),
}

fn read(frames: &[Frame]) -> Vec<Value> {
    frames.iter().map(|(_, json)| serde_json::from_str(json).unwrap()).collect()
}

fn acp_client(frames: &[Frame]) -> Has {
    Has::Screen(Box::new(Screen::of_messages(&read(frames)).for_comparison()))
}

fn opencode_client(frames: &[Frame]) -> Has {
    Has::Store(Box::new(Store::of(&read(frames)).for_comparison()))
}

/// Changes after the end of a turn are told, but AG-UI has no event that changes the message.
fn ag_ui_client(frames: &[Frame]) -> Has {
    let events = read(frames);
    let late = events.iter().filter(|event| event["type"] == "CUSTOM");
    let late = late.filter_map(|event| event["value"]["item"].as_str().map(str::to_owned));
    let late: BTreeSet<String> = late.collect();
    Has::Thread(Box::new(Thread::of(&events).for_comparison(&late)))
}

fn ai_sdk_client(frames: &[Frame]) -> Has {
    Has::Page(Page::of(&read(frames)))
}

/// The client of a dialect that repeats the conversation.
fn client_of<D: Dialect>() -> Option<Client> {
    match D::NAME {
        Acp::NAME => Some(acp_client),
        Opencode::NAME => Some(opencode_client),
        AgUi::NAME => Some(ag_ui_client),
        name if name.starts_with("ai-sdk-") => Some(ai_sdk_client),
        _ => None,
    }
}

/// Holds a dialect to what it promises.
fn hold<D: Dialect>() {
    let client = client_of::<D>();
    let full = std::env::var_os("TURNSTREAM_FULL").is_some();
    for (name, events) in captured_logs() {
        let log = kept(events);
        let whole = encode(D::resume(&State::default()), &log);
        let stayed = client.map(|client| client(&whole.concat()));
        let mut fold = Fold::new();
        for cut in 0..=log.len() {
            if !(full || cut % 11 == 0 || cut == log.len()) {
                fold.apply(&log[cut].0);
                continue;
            }
            let rest = encode(D::resume(fold.state()), &log[cut..]);
            assert_eq!(rest, whole[cut..], "{} of {name} from {cut}", D::NAME);
            match (D::REPEATS, client) {
                (Repeats::Nothing, _) => {}
                (Repeats::Conversation, None) => panic!("{} needs a client to judge it", D::NAME),
                (Repeats::Conversation, Some(client)) => {
                    let mut shown = Written::default();
                    let dialect = D::replay(fold.state(), &mut shown);
                    shown.0.extend(encode(dialect, &log[cut..]).concat());
                    assert_eq!(Some(client(&shown.0)), stayed, "{} of {name} at {cut}", D::NAME);
                }
            }
            if let Some(Kept(event, ..)) = log.get(cut) {
                fold.apply(event);
            }
        }
    }
}

macro_rules! hold_all {
    ($($dialect:ty),+) => {
        #[test]
        fn every_dialect_continues_every_place_with_the_same_frames_or_shows_the_same_conversation() {
            $(hold::<$dialect>();)+
        }

        #[test]
        fn every_dialect_is_in_the_documentation() {
            let page = include_str!("../../../../docs/http.md");
            for (name, member) in [$((<$dialect>::NAME, <$dialect>::ID_MEMBER)),+] {
                let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` | ")));
                let row = row.unwrap_or_else(|| panic!("docs/http.md lacks the dialect {name}"));
                assert!(row.contains(&format!("| member `{member}` |")), "{row}");
            }
        }
    };
}

for_each_dialect!(hold_all);

#[test]
fn native_writes_the_bytes_that_were_committed() {
    for (name, log) in captured_logs() {
        let log = kept(log);
        let frames = encode(Native, &log);
        for (Kept(event, _, json), frames) in log.iter().zip(&frames) {
            let r#type = event.draft.body.type_name().to_owned();
            assert_eq!(*frames, [(Some(r#type), json.clone())], "{name}");
        }
    }
}

#[test]
fn native_reads_no_event() {
    let kind = Kind::named("notice");
    let mut out = Written::default();
    let not_an_event = br#"{"seq":"none"}"#;
    let line = Line::new(Seq(1), &kind, not_an_event);
    Native.encode(&line, &mut out).unwrap();
    assert_eq!(out.0.len(), 1);
    assert!(Acp::default().encode(&line, &mut out).is_err());
}

fn has_no_member_for_the_id<D: Dialect>() {
    for (_, log) in captured_logs() {
        for (_, json) in encode(D::resume(&State::default()), &kept(log)).concat() {
            let message: Value = serde_json::from_str(&json).unwrap();
            assert_eq!(message.get(D::ID_MEMBER), None, "{}", D::NAME);
        }
    }
}

#[test]
fn no_frame_has_the_member_that_takes_its_id() {
    has_no_member_for_the_id::<Acp>();
    has_no_member_for_the_id::<Opencode>();
    has_no_member_for_the_id::<AgUi>();
    has_no_member_for_the_id::<AiSdk<7>>();
}
