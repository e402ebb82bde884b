//! The TypeScript client's types of events are made from the table of events. `TURNSTREAM_UPDATE=1` writes
//! them anew.

use turnstream_model::event::{
    ApprovalOutcome, By, Cap, ErrorClass, Field, ItemKind, ItemState, Known, MemberDescription, MemberKind,
    NoticeCode, Origin, Outcome, Permissions, Presence, QuestionOutcome, ResumeAs, Role, Scope, Shown,
    StopReason,
};
use turnstream_model::fold::Activity;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/typescript/src/wire.ts");

const BEGIN: &str = "\
// Every event of the native wire. Written by a test of crates/model from its table of events; do not edit:
// TURNSTREAM_UPDATE=1 cargo nextest run -p turnstream-model --test typescript

import type {
  ApprovalOption, Budget, Caps, ContentBlock, Context, Cost, Question, Tool, TurnError, Usage, Used,
} from \"./values.js\";

";

const ENVELOPE: &str = "\
/** Members that every event may have. */
export interface Envelope {
  seq: number;
  time: number;
  turn?: string;
  attempt?: string;
  item?: string;
  parent?: string;
  native?: string;
  actor?: string;
}

";

/// The name of a closed list of words, and the words.
fn words() -> Vec<(&'static str, Vec<&'static str>)> {
    macro_rules! of {
        ($($name:ident),+ $(,)?) => {
            vec![$((stringify!($name), $name::ALL.iter().map(|word| word.as_str()).collect())),+]
        };
    }
    of![
        Activity,
        ApprovalOutcome,
        By,
        Cap,
        ErrorClass,
        Field,
        ItemKind,
        ItemState,
        NoticeCode,
        Origin,
        Outcome,
        Permissions,
        QuestionOutcome,
        ResumeAs,
        Role,
        Scope,
        StopReason,
    ]
}

/// The type of a member. A new word or object of a type of the table's first part needs a line here.
fn type_of(event: &str, member: &MemberDescription) -> &'static str {
    match (member.kind, event, member.name) {
        (MemberKind::Text, ..) => "string",
        (MemberKind::Number, ..) => "number",
        (MemberKind::Flag, ..) => "boolean",
        (MemberKind::Id, _, "prompts" | "items" | "mcp") => "string[]",
        (MemberKind::Id, ..) => "string",
        (MemberKind::Word, "session.status", "status") => "Activity",
        (MemberKind::Word, "session.status", "reason") => "ErrorClass",
        (MemberKind::Word, "approval.resolved", "outcome") => "ApprovalOutcome",
        (MemberKind::Word, "question.answered", "outcome") => "QuestionOutcome",
        (MemberKind::Word, "turn.ended", "outcome") => "Outcome",
        (MemberKind::Word, _, "permissions") => "Permissions",
        (MemberKind::Word, _, "as") => "ResumeAs",
        (MemberKind::Word, _, "by") => "By",
        (MemberKind::Word, _, "origin") => "Origin",
        (MemberKind::Word, _, "kind") => "ItemKind",
        (MemberKind::Word, _, "role") => "Role",
        (MemberKind::Word, _, "field") => "Field",
        (MemberKind::Word, _, "state") => "ItemState",
        (MemberKind::Word, _, "stop_reason") => "StopReason",
        (MemberKind::Word, _, "code") => "NoticeCode",
        (MemberKind::Word, _, "scope") => "Scope",
        (MemberKind::Word, _, "cap") => "Cap",
        (MemberKind::Json, _, "budget") => "Budget",
        (MemberKind::Json, _, "caps") => "Caps",
        (MemberKind::Json, _, "used" | "last") => "Used",
        (MemberKind::Json, _, "context") => "Context",
        (MemberKind::Json, _, "content") => "ContentBlock[]",
        (MemberKind::Json, _, "tool") => "Tool",
        (MemberKind::Json, _, "usage") => "Usage",
        (MemberKind::Json, _, "cost") => "Cost",
        (MemberKind::Json, _, "options") => "ApprovalOption[]",
        (MemberKind::Json, _, "questions") => "Question[]",
        (MemberKind::Json, _, "answers") => "Record<string, string[]>",
        (MemberKind::Json, _, "error") => "TurnError",
        (MemberKind::Json, _, "detail") => "unknown",
        (MemberKind::Word, event, _) if !is_shown(event) => "string",
        (MemberKind::Json, event, _) if !is_shown(event) => "unknown",
        (kind, event, name) => panic!("{event}, member {name}: no TypeScript type for this {kind}"),
    }
}

/// Whether the type is of the table's first part, of which every view decides about each type.
fn is_shown(event: &str) -> bool {
    Shown::ALL.iter().any(|shown| shown.as_str() == event)
}

fn member(event: &str, member: &MemberDescription) -> String {
    let optional = match member.presence {
        Presence::Must | Presence::Flat => "",
        Presence::May | Presence::OrDefault | Presence::List => "?",
    };
    format!("  {}{optional}: {};\n", member.name, type_of(event, member))
}

/// `item.started` is `ItemStarted`.
fn interface_name(event: &str) -> String {
    event.split(['.', '_']).map(|word| format!("{}{}", word[..1].to_uppercase(), &word[1..])).collect()
}

fn interface(known: Known) -> String {
    let description = known.description();
    let name = interface_name(description.name);
    let needs: String = description.needs.iter().map(|id| format!("  {id}: string;\n")).collect();
    let inner = |outer: &'static MemberDescription| {
        if outer.flat.is_empty() { std::slice::from_ref(outer) } else { outer.flat }
    };
    let members: String =
        description.members.iter().flat_map(inner).map(|one| member(description.name, one)).collect();
    // `attempt` of a status is a number, and stands where the envelope has an id.
    let clashes = description.members.iter().flat_map(inner).any(|one| one.name == "attempt");
    let envelope = if clashes { "Omit<Envelope, \"attempt\">" } else { "Envelope" };
    let (says, event) = (description.says.trim(), description.name);
    format!(
        "/** {says} */\nexport interface {name} extends {envelope} {{\n  type: \"{event}\";\n{needs}{members}}}\n\n"
    )
}

fn module() -> String {
    let words: String = words()
        .iter()
        .map(|(name, words)| {
            let words: Vec<String> = words.iter().map(|word| format!("  | \"{word}\"")).collect();
            format!("export type {name} =\n{};\n\n", words.join("\n"))
        })
        .collect();
    let interfaces: String = Known::ALL.iter().map(|known| interface(*known)).collect();
    let (shown, asides): (Vec<&Known>, Vec<&Known>) =
        Known::ALL.iter().partition(|known| is_shown(known.as_str()));
    let (shown, asides) = (union("Shown", &shown), union("Aside", &asides));
    format!(
        "{BEGIN}{words}{ENVELOPE}{interfaces}\
         /** Types of the table's first part: a reader decides about each of them. */\n{shown}\
         /** Types of the second part: a reader that has not asked for one of them skips it. */\n{asides}\
         export type Event = Shown | Aside;\n"
    )
}

fn union(name: &str, types: &[&Known]) -> String {
    let names: Vec<String> =
        types.iter().map(|known| format!("  | {}", interface_name(known.as_str()))).collect();
    format!("export type {name} =\n{};\n\n", names.join("\n"))
}

#[test]
fn the_typescript_client_has_the_types_of_all_events() {
    let module = module();
    if std::env::var_os("TURNSTREAM_UPDATE").is_some() {
        std::fs::write(PATH, module).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(PATH).unwrap();
    assert_eq!(kept, module, "TURNSTREAM_UPDATE=1 writes it anew");
}
