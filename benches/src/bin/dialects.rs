//! The encoders of the dialects over a long answer: events per second on one core.

use std::process::ExitCode;
use std::time::Instant;
use turnstream_dialects::{Dialect, FrameSink, for_each_dialect};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Kind, Line};
use turnstream_model::fold::State;

/// The allocator of the shipped binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DELTAS: u64 = 200_000;
const ROUNDS: usize = 7;
/// The least events per second that each dialect must write.
const WANTED: f64 = 300_000.0;

/// Counts bytes, as a carrier would copy them.
#[derive(Default)]
struct Bytes(usize);

impl FrameSink for Bytes {
    fn frame(&mut self, _: Option<&str>, json: &[u8]) {
        self.0 += json.len();
    }
}

fn log() -> Vec<String> {
    let head = [
        r#"{"seq":1,"time":1,"type":"session.created","session":"ses_1","agent":"demo","cwd":"/srv"}"#,
        r#"{"seq":2,"time":1,"type":"turn.started","turn":"t1","origin":"agent","prompts":[]}"#,
        r#"{"seq":3,"time":1,"type":"item.started","turn":"t1","item":"i1","kind":"message","role":"assistant"}"#,
    ];
    let delta = |seq| {
        format!(
            r#"{{"seq":{seq},"time":2,"type":"item.delta","turn":"t1","item":"i1","text":"a few words "}}"#
        )
    };
    head.into_iter().map(str::to_owned).chain((4..4 + DELTAS).map(delta)).collect()
}

/// Events per second of the best round.
fn rate<D: Dialect>(log: &[String]) -> f64 {
    let kinds: Vec<Kind> = log.iter().map(|line| Kind::of_line(line.as_bytes())).collect();
    let mut best = f64::MIN;
    for _ in 0..ROUNDS {
        let (mut dialect, mut out) = (D::resume(&State::default()), Bytes::default());
        let begun = Instant::now();
        for (index, (line, kind)) in log.iter().zip(&kinds).enumerate() {
            let line = Line::new(Seq(index as u64 + 1), kind, line.as_bytes());
            if let Err(error) = dialect.encode(&line, &mut out) {
                eprintln!("{}: {error}", D::NAME);
            }
        }
        best = best.max(log.len() as f64 / begun.elapsed().as_secs_f64());
    }
    best
}

macro_rules! rates {
    ($($dialect:ty),+) => {
        fn rates(log: &[String]) -> Vec<(&'static str, f64)> {
            vec![$((<$dialect>::NAME, rate::<$dialect>(log))),+]
        }
    };
}

for_each_dialect!(rates);

fn main() -> ExitCode {
    let rates = rates(&log());
    println!("events per second on one core, best of {ROUNDS} rounds of {DELTAS} deltas");
    for (name, rate) in &rates {
        println!("{name:>10} {rate:>12.0}");
    }
    let is_fast = rates.iter().all(|(_, rate)| *rate >= WANTED);
    println!("each at least {WANTED:.0}: {}", if is_fast { "yes" } else { "NO" });
    if is_fast { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
