//! The decoder of Claude Code on one core: lines of its captures per second, and those of a long answer.

use serde_json::Value;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use turnstream_agents::claude::{Conversation, ConversationSettings};
use turnstream_benches::{Bars, print_table};
use turnstream_model::time::Time;

const ROUNDS: usize = 15;
/// Each run decodes at least so many lines.
const LINES: usize = 100_000;
const NOW: Time = Time(1_794_700_000_000);

/// The lines that one process wrote.
type Process = Vec<Vec<u8>>;

fn main() -> ExitCode {
    let captures = captures();
    let deltas = vec![longest_answer(&captures)];
    let cells = [("all captures", &captures), ("text deltas of one long answer", &deltas)];
    let mut rows = vec![["what", "bytes per line", "ns per line", "lines/s"].map(str::to_owned).to_vec()];
    let mut slowest = f64::MAX;
    for (name, processes) in cells {
        let lines: usize = processes.iter().map(Vec::len).sum();
        let bytes: usize = processes.iter().flatten().map(Vec::len).sum();
        let repeats = LINES.div_ceil(lines);
        let best = (0..ROUNDS).map(|_| seconds(processes, repeats)).fold(f64::MAX, f64::min);
        let rate = (lines * repeats) as f64 / best;
        slowest = slowest.min(rate);
        rows.push(vec![
            name.to_owned(),
            format!("{:.0}", bytes as f64 / lines as f64),
            format!("{:.0}", 1e9 / rate),
            format!("{rate:.0}"),
        ]);
    }
    println!("Best of {ROUNDS} runs of at least {LINES} lines on one core.\n");
    print_table(&rows);
    println!();
    let mut bars = Bars::default();
    bars.check("at least 100,000 lines/s of Claude Code", slowest >= 100_000.0, &format!("{slowest:.0}"));
    bars.exit_code()
}

/// How long it takes to decode all lines so many times.
fn seconds(processes: &[Process], repeats: usize) -> f64 {
    let start = Instant::now();
    let mut observed = 0;
    for _ in 0..repeats {
        for lines in processes {
            let mut conversation = Conversation::new(ConversationSettings { native_id: "bench".to_owned() });
            for line in lines {
                conversation.line(line, NOW);
                while conversation.next_observed().is_some() {
                    observed += 1;
                }
            }
        }
    }
    assert!(std::hint::black_box(observed) > 0, "nothing was decoded");
    start.elapsed().as_secs_f64()
}

/// What Claude Code wrote in each capture.
fn captures() -> Vec<Process> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/claude");
    let mut files: Vec<_> = std::fs::read_dir(&folder).expect("the captures").flatten().collect();
    files.sort_by_key(std::fs::DirEntry::path);
    let files = files.into_iter().map(|entry| entry.path());
    let captures = files.filter(|path| path.extension().is_some_and(|ending| ending == "ndjson"));
    captures.map(|path| lines(&std::fs::read_to_string(path).expect("a capture"))).collect()
}

fn lines(capture: &str) -> Process {
    let rows = capture.lines().map(|row| serde_json::from_str::<Value>(row).expect("a row of a capture"));
    rows.filter(|row| row["dir"] == "out").map(|row| row["line"].to_string().into_bytes()).collect()
}

/// The beginning of an answer with a captured text delta, many times.
fn longest_answer(captures: &[Process]) -> Process {
    let is_delta = |line: &Vec<u8>| String::from_utf8_lossy(line).contains("\"text_delta\"");
    let capture = captures.iter().find(|lines| lines.iter().any(is_delta)).expect("a capture with text");
    let at = capture.iter().position(is_delta).expect("a delta");
    let mut answer = capture[..at].to_vec();
    answer.extend(std::iter::repeat_n(capture[at].clone(), 20_000));
    answer
}
