//! The decoders of Claude Code and of ACP agents on one core: lines of their captures per second, and those
//! of a long answer.

use serde_json::Value;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use turnstream_agents::{acp, claude};
use turnstream_benches::{Bars, print_table};
use turnstream_model::time::Time;

const ROUNDS: usize = 15;
/// Each run decodes at least so many lines.
const LINES: usize = 100_000;
const NOW: Time = Time(1_794_700_000_000);

/// The lines that one process wrote.
type Process = Vec<Vec<u8>>;

/// A decoder: what it is called, where its captures are, and what decodes the lines of a process.
struct Decoder {
    name: &'static str,
    folder: &'static str,
    /// A part of a captured text delta.
    delta: &'static str,
    /// Decodes lines, and returns how much was observed.
    decode: fn(&Process) -> usize,
}

const DECODERS: &[Decoder] = &[
    Decoder { name: "Claude Code", folder: "claude", delta: "\"text_delta\"", decode: decode_claude },
    Decoder { name: "ACP", folder: "acp", delta: "\"agent_message_chunk\"", decode: decode_acp },
];

fn main() -> ExitCode {
    let mut rows = vec![["what", "bytes per line", "ns per line", "lines/s"].map(str::to_owned).to_vec()];
    let mut bars = Bars::default();
    for Decoder { name, folder, delta, decode } in DECODERS {
        let captures = captures(folder);
        let deltas = vec![longest_answer(&captures, delta)];
        let cells = [("all captures", &captures), ("text deltas of one long answer", &deltas)];
        let mut slowest = f64::MAX;
        for (what, processes) in cells {
            let lines: usize = processes.iter().map(Vec::len).sum();
            let bytes: usize = processes.iter().flatten().map(Vec::len).sum();
            let repeats = LINES.div_ceil(lines);
            let best = (0..ROUNDS).map(|_| seconds(processes, repeats, *decode)).fold(f64::MAX, f64::min);
            let rate = (lines * repeats) as f64 / best;
            slowest = slowest.min(rate);
            rows.push(vec![
                format!("{name}: {what}"),
                format!("{:.0}", bytes as f64 / lines as f64),
                format!("{:.0}", 1e9 / rate),
                format!("{rate:.0}"),
            ]);
        }
        let bar = format!("at least 100,000 lines/s of {name}");
        bars.check(&bar, slowest >= 100_000.0, &format!("{slowest:.0}"));
    }
    println!("Best of {ROUNDS} runs of at least {LINES} lines on one core.\n");
    print_table(&rows);
    println!();
    bars.exit_code()
}

/// How long it takes to decode all lines so many times.
fn seconds(processes: &[Process], repeats: usize, decode: fn(&Process) -> usize) -> f64 {
    let start = Instant::now();
    let mut observed = 0;
    for _ in 0..repeats {
        observed += processes.iter().map(decode).sum::<usize>();
    }
    assert!(std::hint::black_box(observed) > 0, "nothing was decoded");
    start.elapsed().as_secs_f64()
}

fn decode_claude(lines: &Process) -> usize {
    let settings = claude::ConversationSettings { native_id: "bench".to_owned() };
    let mut conversation = claude::Conversation::new(settings);
    let mut observed = 0;
    for line in lines {
        conversation.line(line, NOW);
        observed += std::iter::from_fn(|| conversation.next_observed()).count();
    }
    observed
}

fn decode_acp(lines: &Process) -> usize {
    let mut conversation = acp::Conversation::new(acp::ConversationSettings::default());
    let mut observed = 0;
    for line in lines {
        conversation.line(line, NOW);
        observed += std::iter::from_fn(|| conversation.next_observed()).count();
    }
    observed
}

/// What an agent wrote in each capture.
fn captures(folder: &str) -> Vec<Process> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(folder);
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
fn longest_answer(captures: &[Process], delta: &str) -> Process {
    let is_delta = |line: &Vec<u8>| String::from_utf8_lossy(line).contains(delta);
    let capture = captures.iter().find(|lines| lines.iter().any(is_delta)).expect("a capture with text");
    let at = capture.iter().position(is_delta).expect("a delta");
    let mut answer = capture[..at].to_vec();
    answer.extend(std::iter::repeat_n(capture[at].clone(), 20_000));
    answer
}
