//! Turn machine and fold on one core: deltas per second, and whether a long item costs more per delta.

use std::process::ExitCode;
use std::time::{Duration, Instant};
use turnstream_benches::{Bars, print_table};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Draft, Field, ItemKind, Role};
use turnstream_model::fold::Fold;
use turnstream_model::id::{Counters, Key, SessionId};
use turnstream_model::machine::{Machine, Step};
use turnstream_model::signal::{ItemSeen, Signal};
use turnstream_model::time::Time;

const ROUNDS: usize = 15;
const DELTAS: usize = 200_000;
const SHORT: usize = 2_000;
/// About one token, as in a captured opencode delta.
const TEXT: &str = " token of text";

/// Name, deltas per item, and the work, which returns the bytes of text.
type Cell = (&'static str, usize, fn(&[Signal]) -> usize);

fn main() -> ExitCode {
    let mut rows = vec![["what", "ns per delta", "million/s"].map(str::to_owned).to_vec()];
    let cells: [Cell; 3] = [
        ("machine and fold, 200,000 deltas into one item", DELTAS, through_both),
        ("machine and fold, 2,000 deltas each into 100 items", SHORT, through_both),
        ("machine alone, 200,000 deltas into one item", DELTAS, through_machine),
    ];
    let mut bests = [Duration::MAX; 3];
    for _ in 0..ROUNDS {
        for ((_, per_item, run), best) in cells.iter().zip(&mut bests) {
            let signals = conversation(*per_item);
            let start = Instant::now();
            let text = std::hint::black_box(run(&signals));
            *best = (*best).min(start.elapsed());
            assert_eq!(text, DELTAS * TEXT.len(), "text was lost");
        }
    }
    for ((name, ..), best) in cells.iter().zip(&bests) {
        let nanos = best.as_nanos() as f64 / DELTAS as f64;
        rows.push(vec![(*name).to_owned(), format!("{nanos:.0}"), format!("{:.2}", 1e3 / nanos)]);
    }
    println!(
        "{DELTAS} delta signals of {} bytes, best of {ROUNDS} interleaved runs on one core.",
        TEXT.len()
    );
    println!("Copying the signal, as an adapter's decoder would make it, is part of the time.\n");
    print_table(&rows);
    println!();

    let [long, short, _] = bests.map(|best| best.as_secs_f64());
    let mut bars = Bars::default();
    let rate = DELTAS as f64 / long / 1e6;
    bars.check(
        "at least 2 million delta signals/s through machine and fold",
        rate >= 2.0,
        &format!("{rate:.2}"),
    );
    let ratio = long / short;
    // The tolerance is the difference between two runs of the same code on a shared machine.
    bars.check(
        "a delta into a long item costs no more than into a short one",
        ratio <= 1.1,
        &format!("{ratio:.2}x"),
    );
    bars.exit_code()
}

/// Deltas in items of this length. Each item is announced first.
fn conversation(per_item: usize) -> Vec<Signal> {
    let mut signals = Vec::with_capacity(DELTAS + DELTAS / per_item);
    for index in 0..DELTAS {
        let key = Key::from(format!("prt_{}", index / per_item));
        if index % per_item == 0 {
            let (kind, role) = (ItemKind::Message, Some(Role::Assistant));
            signals.push(Signal::ItemSeen(ItemSeen {
                key: key.clone(),
                kind,
                role,
                parent: None,
                synthetic: false,
            }));
        }
        signals.push(Signal::TextDelta { key, field: Field::Text, text: TEXT.to_owned() });
    }
    signals
}

fn drive(signals: &[Signal], mut each: impl FnMut(Draft)) {
    let (mut machine, mut ids) = (Machine::new(), Counters::default());
    let (mut drafts, mut needs) = (Vec::new(), Vec::new());
    let now = Time(1_794_700_000_000);
    let mut step = Step { now, ids: &mut ids, drafts: &mut drafts, needs: &mut needs };
    machine
        .create(SessionId::from("ses_1"), "bench".into(), "/".into(), None, None, &mut step)
        .expect("a new session");
    for signal in signals {
        let mut step = Step { now, ids: &mut ids, drafts: &mut drafts, needs: &mut needs };
        machine.observe(signal.clone(), &mut step);
        drafts.drain(..).for_each(&mut each);
    }
}

fn through_both(signals: &[Signal]) -> usize {
    let mut fold = Fold::new();
    let mut seq = Seq(0);
    drive(signals, |draft| {
        seq = seq.next();
        fold.apply(&draft.at(seq, Time(1_794_700_000_000)));
    });
    fold.state().items.iter().filter_map(|item| item.text.as_ref()).map(String::len).sum()
}

fn through_machine(signals: &[Signal]) -> usize {
    let mut bytes = 0;
    drive(signals, |draft| {
        if let turnstream_model::event::Body::ItemDelta { text, .. } = &draft.body {
            bytes += text.len();
        }
    });
    bytes
}
