//! What is written of a fold, and when.

use super::*;
use turnstream_model::event::{Body, Draft, Field, ItemKind};
use turnstream_model::time::Time;

/// A projection that receives events and is written every 100 ms, as the flusher does.
struct Fed {
    projection: Projection,
    seq: u64,
    now: Instant,
    said: usize,
    written: usize,
}

impl Fed {
    fn new() -> Self {
        let now = Instant::now();
        Self { projection: Projection::new(State::default(), now), seq: 0, now, said: 0, written: 0 }
    }

    fn say(&mut self, item: &str, body: Body) {
        self.seq += 1;
        let event = Draft { item: Some(ItemId::from(item)), ..Draft::new(body) }.at(Seq(self.seq), Time(1));
        self.said += 200;
        assert_eq!(self.projection.apply(&event, 200, 1, self.now), Applied::Yes);
    }

    fn tick(&mut self) {
        self.now += Duration::from_millis(100);
        if let Some(flush) = self.projection.due(self.now, Duration::from_secs(1)) {
            self.written += flush.pieces.iter().map(|piece| piece.body.len()).sum::<usize>();
            self.written += flush.head.as_ref().map_or(0, String::len);
            self.projection.written(&flush, self.now);
        }
    }
}

fn started() -> Body {
    let (kind, role, synthetic, text, tool, native_id) =
        (ItemKind::Message, None, false, Some(String::new()), None, None);
    Body::ItemStarted { kind, role, synthetic, text, tool, native_id }
}

fn delta() -> Body {
    Body::ItemDelta { field: Field::Text, text: "x".repeat(100) }
}

#[test]
fn what_is_written_stays_linear_in_what_was_said() {
    let mut fed = Fed::new();
    fed.say("i1", started());
    for _ in 0..20_000 {
        fed.say("i1", delta());
        fed.tick();
    }
    assert!(fed.written < 4 * fed.said, "{} bytes were written for {}", fed.written, fed.said);
    assert!(2 * fed.written > fed.said, "it was written while it streamed");
}

#[test]
fn what_is_written_stays_linear_when_many_items_begin_beside_a_long_one() {
    let mut fed = Fed::new();
    fed.say("long", started());
    for number in 0..5_000 {
        fed.say("long", delta());
        fed.say(&format!("i{number}"), started());
        fed.tick();
    }
    assert!(fed.written < 8 * fed.said, "{} bytes were written for {}", fed.written, fed.said);
}

#[test]
fn what_is_written_stays_linear_when_large_prompts_wait() {
    let mut fed = Fed::new();
    let text = "x".repeat(9_000);
    for number in 0..100 {
        let content = vec![serde_json::json!({"type": "text", "text": text})];
        let prompt = PromptId::from(format!("p{number}"));
        fed.seq += 1;
        let accepted = Draft::new(Body::PromptAccepted { prompt, key: None, content });
        let event = accepted.at(Seq(fed.seq), Time(1));
        fed.said += text.len();
        assert_eq!(fed.projection.apply(&event, text.len(), 1, fed.now), Applied::Yes);
        // Longer than the debounce, so that it does not hold anything back.
        fed.now += Duration::from_secs(2);
        fed.tick();
    }
    assert!(fed.written < 4 * fed.said, "{} bytes were written for {}", fed.written, fed.said);
}

#[test]
fn a_new_session_is_stored_with_its_first_events_and_then_as_often_as_others() {
    let now = Instant::now();
    let nothing = StoredFold { head: None, pieces: BTreeMap::new(), tail: Vec::new() };
    let mut projection = Projection::load(nothing, 1, now).unwrap();
    let long = Duration::from_secs(3600);
    projection.apply(&Draft::new(started()).at(Seq(1), Time(1)), 100, 1, now);
    let flush = projection.due(now, long).expect("the first write");
    assert!(flush.head.is_some());
    projection.written(&flush, now);
    projection.apply(&Draft::new(delta()).at(Seq(2), Time(1)), 100, 1, now);
    assert!(projection.due(now, long).is_none());
}

#[test]
fn an_item_has_its_row_in_the_first_write_after_it_began_and_none_after_it_went() {
    let mut fed = Fed::new();
    fed.say("i1", started());
    let flush = fed.projection.due(fed.now, Duration::from_secs(3600)).expect("the row");
    assert_eq!((flush.pieces.len(), flush.head.is_none(), flush.pieces[0].streaming), (1, true, true));
    fed.projection.written(&flush, fed.now);
    assert!(fed.projection.due(fed.now, Duration::from_secs(3600)).is_none(), "once");
    fed.say("i1", Body::ItemRemoved);
    let flush = fed.projection.due(fed.now, Duration::from_secs(3600)).expect("its end");
    assert_eq!((flush.pieces.len(), flush.gone), (0, vec![ItemId::from("i1")]));
}

#[test]
fn an_event_that_does_not_follow_is_not_taken_in() {
    let mut fed = Fed::new();
    let event = Draft::new(delta()).at(Seq(5), Time(1));
    let expected = Seq(1);
    assert_eq!(fed.projection.apply(&event, 1, 1, fed.now), Applied::Gap { expected });
    assert!(fed.projection.due(fed.now, Duration::ZERO).is_none());
}
