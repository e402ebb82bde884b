//! Half a character in a log that another program wrote, or wrote again: its line is read, and judged as it
//! is read.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use turnstream_model::check::{Checker, Tail};
use turnstream_model::event::Event;

const SEED: u64 = 0xD83D_DE00;

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, rng_seed: RngSeed::Fixed(SEED), ..ProptestConfig::default() })]

    #[test]
    fn a_line_reads_as_if_its_halves_were_lost_characters(units in prop::collection::vec(prop::sample::select(vec![0xD83D_u16, 0xDE00, 0xDBFF, 0xDC00, 0x61, 0x22]), 0..9)) {
        let escaped: String = units.iter().map(|unit| format!("\\u{unit:04X}")).collect();
        let line = |text: &str| {
            let event = json!({"seq": 3, "time": 1_794_700_000_000_u64, "type": "item.delta", "turn": "t1", "item": "i1", "text": "@"});
            event.to_string().replace('@', text)
        };
        let lossy = serde_json::to_string(&String::from_utf16_lossy(&units)).unwrap();
        let (halved, whole) = (line(&escaped), line(lossy.trim_matches('"')));
        prop_assume!(!units.ends_with(&[0x22]) && !units.starts_with(&[0x22]));
        prop_assert_eq!(Event::from_json(&halved).unwrap(), Event::from_json(&whole).unwrap());
        let judged = |line: &str| {
            let mut checker = Checker::new();
            checker.line(line);
            format!("{:?}", checker.finish(Tail::Live))
        };
        prop_assert_eq!(judged(&halved), judged(&whole));
        prop_assert!(serde_json::from_str::<Value>(&whole).is_ok());
    }
}
