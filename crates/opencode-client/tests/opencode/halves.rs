//! Characters that are cut between two deltas: held until it is known what becomes of them.

use crate::desk::{Desk, ONE, SESSION, answer_info, snapshot, text_part};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use std::sync::Arc;
use turnstream_model::event::Outcome;
use turnstream_model::fold::ItemStage;
use turnstream_model::time::Time;
use turnstream_opencode_client::conversation::{Answer, PromptAnswer};
use turnstream_opencode_client::event::Event as AgentEvent;

const SEED: u64 = 0xD83D_DE00;
const PARTS: [&str; 3] = ["prt_a", "prt_b", "prt_c"];

type Units = Vec<u16>;

/// Pieces of three texts, one behind the other.
fn pieces() -> impl Strategy<Value = Vec<(usize, Units)>> {
    let unit =
        prop::sample::select(vec![0xD83D_u16, 0xDE00, 0xD83D, 0xDE00, 0xDBFF, 0xDC00, 0x61, 0xFC, 0xFFFD]);
    prop::collection::vec((0..PARTS.len(), prop::collection::vec(unit, 1..4)), 0..12)
}

fn escaped(units: &[u16]) -> String {
    units.iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// What the pieces of one text make together.
fn of_part(pieces: &[(usize, Units)], part: usize) -> Units {
    pieces.iter().filter(|(of, _)| *of == part).flat_map(|(_, units)| units.clone()).collect()
}

/// An event as it is on the wire, with these units in the place of `@`.
fn event(desk: &mut Desk, kind: &str, properties: &Value, units: &[u16], order: Order) {
    let (kind, properties) = (json!(kind), properties.to_string().replace('@', &escaped(units)));
    let data = match order {
        Order::Usual => format!(r#"{{"type":{kind},"properties":{properties}}}"#),
        Order::Reversed => format!(r#"{{"properties":{properties},"type":{kind}}}"#),
    };
    let event = Arc::new(AgentEvent::parse(data.as_bytes()).unwrap());
    desk.standalone.event(&event, Time(desk.now));
    desk.drain();
}

/// In which order an event has its members.
#[derive(Clone, Copy)]
enum Order {
    Usual,
    Reversed,
}

fn delta(desk: &mut Desk, part: &str, units: &[u16], order: Order) {
    let piece =
        json!({"sessionID": SESSION, "messageID": "msg_a", "partID": part, "field": "text", "delta": "@"});
    event(desk, "message.part.delta", &piece, units, order);
}

fn begun() -> Desk {
    let mut desk = Desk::new();
    desk.prompt(ONE);
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    desk.status("busy");
    desk.event("message.updated", json!({"info": answer_info("msg_a", ONE, json!({}))}));
    for part in PARTS {
        desk.event("message.part.updated", text_part(part, "msg_a", "", false));
    }
    desk
}

fn over(desk: &mut Desk) {
    let over = json!({"finish": "stop", "time": {"created": 1.0, "completed": 2.0}});
    desk.event("message.updated", json!({"info": answer_info("msg_a", ONE, over)}));
    desk.status("idle");
}

/// The texts of the three parts, in their order.
fn texts(desk: &Desk) -> Vec<String> {
    let items = desk.state().items;
    items.iter().map(|item| item.text.clone().unwrap_or_default()).collect()
}

fn replaced(desk: &Desk) -> usize {
    let kinds = desk.log.iter().map(|event| serde_json::to_value(event).unwrap()["type"].clone());
    kinds.filter(|kind| kind == "item.replaced").count()
}

fn wanted(pieces: &[(usize, Units)]) -> Vec<String> {
    (0..PARTS.len()).map(|part| String::from_utf16_lossy(&of_part(pieces, part))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(SEED), ..ProptestConfig::default() })]

    /// However the texts are cut and mixed, the final texts continue what was streamed: nothing is replaced.
    #[test]
    fn a_final_text_continues_its_pieces(pieces in pieces(), reversed: bool) {
        let order = if reversed { Order::Reversed } else { Order::Usual };
        let mut desk = begun();
        for (part, units) in &pieces {
            delta(&mut desk, PARTS[*part], units, order);
        }
        for (place, part) in PARTS.into_iter().enumerate() {
            let whole = text_part(part, "msg_a", "@", true);
            event(&mut desk, "message.part.updated", &whole, &of_part(&pieces, place), order);
        }
        over(&mut desk);
        prop_assert_eq!(texts(&desk), wanted(&pieces));
        prop_assert_eq!(replaced(&desk), 0);
        prop_assert_eq!(desk.outcomes(), [Some(Outcome::Completed)]);
    }

    /// A text that says how far it is may end in the middle of a character as well.
    #[test]
    fn a_text_so_far_continues_its_pieces(pieces in pieces(), at in 0..12_usize) {
        let mut desk = begun();
        let at = at.min(pieces.len());
        for (part, units) in &pieces[..at] {
            delta(&mut desk, PARTS[*part], units, Order::Usual);
        }
        for (place, part) in PARTS.into_iter().enumerate() {
            let so_far = text_part(part, "msg_a", "@", false);
            event(&mut desk, "message.part.updated", &so_far, &of_part(&pieces[..at], place), Order::Usual);
        }
        for (part, units) in &pieces[at..] {
            delta(&mut desk, PARTS[*part], units, Order::Usual);
        }
        for (place, part) in PARTS.into_iter().enumerate() {
            let whole = text_part(part, "msg_a", "@", true);
            event(&mut desk, "message.part.updated", &whole, &of_part(&pieces, place), Order::Usual);
        }
        over(&mut desk);
        prop_assert_eq!(texts(&desk), wanted(&pieces));
        prop_assert_eq!(replaced(&desk), 0);
    }

    /// A turn that ends without the ends of its texts ends them: half a character stays half a one.
    #[test]
    fn the_end_of_a_turn_ends_what_was_held(pieces in pieces()) {
        let mut desk = begun();
        for (part, units) in &pieces {
            delta(&mut desk, PARTS[*part], units, Order::Usual);
        }
        let error = json!({"name": "MessageAbortedError", "data": {"message": "Aborted"}});
        let over = json!({"error": error, "time": {"created": 1.0, "completed": 2.0}});
        desk.event("message.updated", json!({"info": answer_info("msg_a", ONE, over.clone())}));
        desk.status("idle");
        // The server has no more of them either.
        let mut parts: Vec<Value> = PARTS.iter().map(|part| text_part(part, "msg_a", "", false)).collect();
        let parts: Vec<Value> = parts.iter_mut().map(|part| part["part"].take()).collect();
        let messages = json!([
            {"info": {"id": ONE, "sessionID": SESSION, "role": "user"}, "parts": []},
            {"info": answer_info("msg_a", ONE, over), "parts": parts},
        ]);
        desk.pass(60_000, &snapshot(json!({"busy": false, "messages": messages})));
        prop_assert_eq!(desk.outcomes().len(), 1);
        prop_assert!(desk.outcomes()[0].is_some());
        prop_assert_eq!(texts(&desk), wanted(&pieces));
    }
}

#[test]
fn half_a_character_is_not_shown_before_its_other_half() {
    let mut desk = begun();
    delta(&mut desk, "prt_a", &[0x61, 0xD83D], Order::Usual);
    assert_eq!(texts(&desk)[0], "a");
    delta(&mut desk, "prt_b", &[0xDE00], Order::Usual);
    assert_eq!(texts(&desk)[..2], ["a", "\u{FFFD}"], "another text completes nothing");
    delta(&mut desk, "prt_a", &[0xDE00, 0x62], Order::Usual);
    assert_eq!(texts(&desk)[0], "a\u{1F600}b");
}

#[test]
fn a_repeated_model_call_takes_the_half_with_it_that_it_left() {
    let mut desk = begun();
    delta(&mut desk, "prt_a", &[0x61, 0xD83D], Order::Usual);
    let retry = json!({"type": "retry", "attempt": 1, "message": "again", "next": 2.0});
    desk.event("session.status", json!({"status": retry}));
    desk.status("busy");
    desk.event("message.part.updated", text_part("prt_d", "msg_a", "", false));
    delta(&mut desk, "prt_d", &[0xDE00, 0x62], Order::Usual);
    let whole = text_part("prt_d", "msg_a", "@", true);
    event(&mut desk, "message.part.updated", &whole, &[0xDE00, 0x62], Order::Usual);
    over(&mut desk);
    let items = desk.state().items;
    let completed = items.iter().filter(|item| item.state == ItemStage::Completed);
    assert_eq!(completed.map(|item| item.text.clone().unwrap()).collect::<Vec<_>>(), ["\u{FFFD}b"]);
    assert!(desk.log.iter().all(|event| !format!("{event:?}").contains("a\u{FFFD}")), "{:?}", desk.log);
}
