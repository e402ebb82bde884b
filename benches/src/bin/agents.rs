//! The decoders of Claude Code, Codex and ACP agents on one core: lines of their captures per second, and
//! those of a long answer.

use serde_json::Value;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use turnstream_agents::{acp, claude, codex};
use turnstream_benches::{Bars, print_table};
use turnstream_model::time::Time;

const ROUNDS: usize = 15;
/// Each run decodes at least so many lines.
const LINES: usize = 100_000;
const NOW: Time = Time(1_794_700_000_000);

/// The lines that one process wrote.
type Process = Vec<Vec<u8>>;

/// A decoder: reads one line, and says how many observations it made.
trait Decoder {
    fn new() -> Self;
    fn read(&mut self, line: &[u8]) -> usize;
}

/// An agent, with the folder of its captures and the mark of a text delta.
struct Subject {
    name: &'static str,
    folder: &'static str,
    delta: &'static str,
    seconds: fn(&[Process], usize) -> f64,
}

const SUBJECTS: [Subject; 3] = [
    Subject {
        name: "Claude Code",
        folder: "claude",
        delta: "\"text_delta\"",
        seconds: seconds::<claude::Conversation>,
    },
    Subject {
        name: "Codex",
        folder: "codex",
        delta: "item/agentMessage/delta",
        seconds: seconds::<codex::Conversation>,
    },
    Subject {
        name: "ACP agents",
        folder: "acp",
        delta: "\"agent_message_chunk\"",
        seconds: seconds::<acp::Conversation>,
    },
];

fn main() -> ExitCode {
    let mut rows = vec![["what", "bytes per line", "ns per line", "lines/s"].map(str::to_owned).to_vec()];
    let mut bars = Bars::default();
    for subject in SUBJECTS {
        let Subject { name, folder, delta, seconds } = subject;
        let captures = captures(folder);
        let deltas = vec![longest_answer(&captures, delta)];
        let cells = [("all captures", &captures), ("text deltas of one long answer", &deltas)];
        let mut slowest = f64::MAX;
        for (what, processes) in cells {
            let lines: usize = processes.iter().map(Vec::len).sum();
            let bytes: usize = processes.iter().flatten().map(Vec::len).sum();
            let repeats = LINES.div_ceil(lines);
            let best = (0..ROUNDS).map(|_| seconds(processes, repeats)).fold(f64::MAX, f64::min);
            let rate = (lines * repeats) as f64 / best;
            slowest = slowest.min(rate);
            rows.push(vec![
                format!("{name}: {what}"),
                format!("{:.0}", bytes as f64 / lines as f64),
                format!("{:.0}", 1e9 / rate),
                format!("{rate:.0}"),
            ]);
        }
        bars.check(
            &format!("at least 100,000 lines/s of {name}"),
            slowest >= 100_000.0,
            &format!("{slowest:.0}"),
        );
    }
    println!("Best of {ROUNDS} runs of at least {LINES} lines on one core.\n");
    print_table(&rows);
    println!();
    bars.exit_code()
}

impl Decoder for claude::Conversation {
    fn new() -> Self {
        Self::new(claude::ConversationSettings { native_id: "bench".to_owned() })
    }

    fn read(&mut self, line: &[u8]) -> usize {
        self.line(line, NOW);
        std::iter::from_fn(|| self.next_observed()).count()
    }
}

impl Decoder for codex::Conversation {
    fn new() -> Self {
        let mut conversation = Self::new(codex::ConversationSettings::default());
        conversation.open(None, NOW);
        conversation
    }

    fn read(&mut self, line: &[u8]) -> usize {
        self.line(line, NOW);
        while self.next_line().is_some() {}
        std::iter::from_fn(|| self.next_observed()).count()
    }
}

impl Decoder for acp::Conversation {
    fn new() -> Self {
        Self::new(acp::ConversationSettings::default())
    }

    fn read(&mut self, line: &[u8]) -> usize {
        self.line(line, NOW);
        while self.next_line().is_some() {}
        std::iter::from_fn(|| self.next_observed()).count()
    }
}

/// How long it takes to decode all lines so many times.
fn seconds<D: Decoder>(processes: &[Process], repeats: usize) -> f64 {
    let start = Instant::now();
    let mut observed = 0;
    for _ in 0..repeats {
        for lines in processes {
            let mut decoder = D::new();
            observed += lines.iter().map(|line| decoder.read(line)).sum::<usize>();
        }
    }
    assert!(std::hint::black_box(observed) > 0, "nothing was decoded");
    start.elapsed().as_secs_f64()
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
