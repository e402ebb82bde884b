//! The JSON of events is exactly that of the wire reference.

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;
use turnstream_model::check::{Checker, Law, Tail};
use turnstream_model::cursor::CursorOutcome;
use turnstream_model::event::{
    Actor, ApprovalOutcome, By, ErrorClass, Event, ItemKind, ItemState, Known, MemberDescription, MemberKind,
    NoticeCode, Origin, Outcome, Presence, QuestionOutcome, Redacted, StopReason,
};

const REFERENCE: &str = include_str!("../../../../docs/wire.md");

/// The lines of the reference's code blocks of that kind.
fn examples(kind: &str) -> Vec<&'static str> {
    let fence = format!("```{kind}");
    let inside = REFERENCE.lines().scan(false, |inside, line| {
        *inside = if line == fence { true } else { *inside && line != "```" };
        Some((*inside, line))
    });
    inside.filter(|(inside, line)| *inside && line.starts_with('{')).map(|(_, line)| line).collect()
}

/// The names of an object's members, in their order.
fn names(object: &str) -> Vec<String> {
    struct Names;

    impl<'de> Visitor<'de> for Names {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<String>, A::Error> {
            let mut names = Vec::new();
            while let Some((name, _)) = map.next_entry::<String, IgnoredAny>()? {
                names.push(name);
            }
            Ok(names)
        }
    }

    serde_json::Deserializer::from_str(object).deserialize_map(Names).unwrap()
}

#[test]
fn every_example_reads_back_member_by_member() {
    let lines = examples("event");
    assert!(lines.len() >= 34);
    for line in lines {
        let event = Event::from_json(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let (again, want): (Value, Value) =
            (serde_json::from_str(&event.to_json()).unwrap(), serde_json::from_str(line).unwrap());
        assert_eq!(again, want);
        assert!(event.draft.extra.is_empty(), "{line} has members that the types do not know");
        // The order of members is part of what stays: logs are compared byte by byte.
        assert_eq!(names(&event.to_json()), names(line));
    }
}

#[test]
fn every_example_has_the_shape_the_checker_wants() {
    for line in examples("event") {
        let mut checker = Checker::new();
        checker.line(line);
        let report = checker.finish(Tail::Live);
        let shape: Vec<_> =
            report.violations.iter().filter(|violation| violation.law == Law::Shape).collect();
        assert!(shape.is_empty(), "{line}: {shape:?}");
    }
}

#[test]
fn every_type_has_an_example() {
    let types: Vec<String> = examples("event")
        .iter()
        .map(|line| Event::from_json(line).unwrap().draft.body.type_name().to_owned())
        .collect();
    for known in Known::ALL {
        assert!(types.iter().any(|name| name == known.as_str()), "{known} has no example in docs/wire.md");
    }
}

/// The members of an event as they are on the wire: those of a flat value stand in the event itself.
fn members(known: Known) -> Vec<MemberDescription> {
    let flat = |member: &MemberDescription| match member.presence {
        Presence::Flat => member.flat.to_vec(),
        Presence::Must | Presence::May | Presence::OrDefault | Presence::List => vec![*member],
    };
    known.description().members.iter().flat_map(flat).collect()
}

#[test]
fn every_text_is_redacted_somewhere() {
    for known in Known::ALL {
        for member in members(*known) {
            let may_hold_secrets = matches!(member.kind, MemberKind::Text | MemberKind::Json);
            let is_redacted = member.redacted != Redacted::Plain;
            assert_eq!(may_hold_secrets, is_redacted, "{known}, member {}", member.name);
        }
    }
}

/// One row for each event type, from the table of events.
fn table_of_events() -> String {
    let member = |member: &MemberDescription| {
        let optional = match member.presence {
            Presence::Must | Presence::Flat => "",
            Presence::May | Presence::OrDefault | Presence::List => "?",
        };
        format!("`{}`{optional} {}", member.name, member.kind)
    };
    let row = |known: &Known| {
        let description = known.description();
        let needs: Vec<String> = description.needs.iter().map(|id| format!("`{id}`")).collect();
        let members: Vec<String> = members(*known).iter().map(member).collect();
        let (says, needs, members) = (description.says.trim(), needs.join(", "), members.join(", "));
        format!("| `{known}` | {says} | {needs} | {members} |\n")
    };
    let rows: String = Known::ALL.iter().map(row).collect();
    format!("| type | what it says | envelope | members |\n|---|---|---|---|\n{rows}")
}

/// `TURNSTREAM_UPDATE=1` writes the table anew.
#[test]
fn the_reference_has_the_table_of_events() {
    const BEGIN: &str = "<!-- generated from crates/model/src/event/table.rs -->\n";
    const END: &str = "<!-- end of the generated part -->\n";
    let (before, rest) = REFERENCE.split_once(BEGIN).unwrap();
    let (shown, after) = rest.split_once(END).unwrap();
    let table = table_of_events();
    if std::env::var_os("TURNSTREAM_UPDATE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wire.md");
        std::fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(shown, table, "write the table anew with TURNSTREAM_UPDATE=1");
}

#[test]
fn every_first_frame_reads_back() {
    let lines = examples("stream");
    assert_eq!(lines.len(), 5);
    for line in lines {
        let outcome: CursorOutcome = serde_json::from_str(line).unwrap();
        assert_eq!(outcome.to_json(), line);
    }
}

#[test]
fn the_reference_lists_every_word() {
    let row = |name: &str| {
        REFERENCE
            .lines()
            .find(|line| line.starts_with(&format!("| {name} |")))
            .unwrap_or_else(|| panic!("{name}"))
    };
    let in_row = |name: &str, words: Vec<&'static str>| {
        for word in words {
            assert!(row(name).contains(&format!("`{word}`")), "{name} does not list {word}");
        }
    };
    in_row("`origin`", Origin::ALL.iter().map(|word| word.as_str()).collect());
    in_row("`kind` of an item", ItemKind::ALL.iter().map(|word| word.as_str()).collect());
    in_row("`state` of an item", ItemState::ALL.iter().map(|word| word.as_str()).collect());
    in_row("`outcome` of a turn", Outcome::ALL.iter().map(|word| word.as_str()).collect());
    in_row("`outcome` of a turn", StopReason::ALL.iter().map(|word| word.as_str()).collect());
    in_row("`outcome` of an approval", ApprovalOutcome::ALL.iter().map(|word| word.as_str()).collect());
    in_row("`outcome` of an approval", By::ALL.iter().map(|word| word.as_str()).collect());
    in_row("`outcome` of a question", QuestionOutcome::ALL.iter().map(|word| word.as_str()).collect());
    in_row("`code` of a notice", NoticeCode::ALL.iter().map(|word| word.as_str()).collect());
    in_row("`class` of an error", ErrorClass::ALL.iter().map(|word| word.as_str()).collect());
}

#[test]
fn unknown_members_and_types_are_kept() {
    let lines = [
        r#"{"seq":1,"time":5,"type":"item.delta","turn":"t1","item":"i1","text":"x","mood":"good"}"#,
        r#"{"seq":2,"time":5,"type":"weather.changed","turn":7,"sky":{"blue":true}}"#,
        r#"{"seq":3,"time":5,"type":"item.updated","item":"i2","tool":{"status":"completed","future":[1]}}"#,
        r#"{"seq":4,"time":5,"type":"turn.ended","turn":"t1","outcome":"failed","error":{"class":"auth","message":"m","hint":"h"}}"#,
    ];
    for line in lines {
        let event = Event::from_json(line).unwrap();
        let again: Value = serde_json::from_str(&event.to_json()).unwrap();
        assert_eq!(again, serde_json::from_str::<Value>(line).unwrap());
    }
}

#[test]
fn an_actor_is_a_name_or_an_unknown_member() {
    let line =
        r#"{"seq":1,"time":5,"type":"prompt.withdrawn","prompt":"p1","native":"raw_1","actor":"owner"}"#;
    let event = Event::from_json(line).unwrap();
    assert_eq!((event.draft.actor.clone(), event.draft.extra.len()), (Actor::new("owner"), 0));
    assert_eq!(event.to_json(), line);
    for odd in [r#""""#, r#""a\nb""#, "7", r#"{"name":"owner"}"#] {
        let line = format!(r#"{{"seq":1,"time":5,"type":"prompt.withdrawn","prompt":"p1","actor":{odd}}}"#);
        let event = Event::from_json(&line).unwrap();
        assert_eq!(
            (event.draft.actor.clone(), event.to_json()),
            (None, line.clone()),
            "an older log is kept"
        );
        let mut checker = Checker::new();
        checker.line(&line);
        let violations = checker.take_violations();
        assert!(violations.iter().any(|violation| violation.message.contains("\"actor\"")), "{line}");
    }
}

#[test]
fn what_is_missing_or_malformed_is_named() {
    let table = [
        ("[1]", "not a JSON object"),
        ("{", "not a JSON object"),
        ("{}", r#"member "type" is missing"#),
        (r#"{"type":"item.delta","seq":1,"time":1,"text":"x"}"#, r#"item.delta: member "item" is missing"#),
        (
            r#"{"type":"turn.ended","seq":1,"time":1,"outcome":"won","turn":"t"}"#,
            r#"turn.ended: member "outcome""#,
        ),
        (r#"{"type":"item.delta","seq":"1","time":1,"text":"x","item":"i"}"#, r#"item.delta: member "seq""#),
        (r#"{"type":"item.delta","seq":1,"time":1,"text":"x","item":""}"#, "an id must not be empty"),
        (r#"{"type":"session.status","seq":1,"time":1,"status":"asleep"}"#, r#""asleep" is not idle"#),
    ];
    for (line, wanted) in table {
        let error = Event::from_json(line).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}
