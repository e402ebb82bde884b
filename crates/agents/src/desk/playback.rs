//! Plays a capture: what its driver wrote becomes commands, what the agent printed is read, with faults.

use super::{Desk, Talks};
use serde_json::Value;
use std::path::{Path, PathBuf};
use turnstream_testkit::lawful::Tail;

/// What is done to the agent's output, by the place of the line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    None,
    Drop(usize),
    Repeat(usize),
    /// Nothing comes from that line on: the process ends there.
    Cut(usize),
    /// A line that is no JSON comes before that line.
    Garbage(usize),
    /// That line is too long to keep.
    Oversized(usize),
}

/// What a capture needs of the agent that it is of.
pub(crate) trait Driver: Default {
    /// The conversation with that agent.
    type Conversation: Talks;
    /// The folder of its captures in `fixtures`.
    const FOLDER: &'static str;
    /// The start of a line, cut in its middle.
    const GARBAGE: &'static str;

    /// A new session.
    fn desk() -> Desk<Self::Conversation>;

    /// Does what the driver of the capture did when it wrote this line, which has this place.
    fn drive(&mut self, desk: &mut Desk<Self::Conversation>, line: &Value, place: usize);

    /// The agent's line, with our id of the request that it answers.
    fn answered(&self, desk: &Desk<Self::Conversation>, line: &Value) -> Value;

    /// The next process of the capture begins. The last one has ended, unless this keeps it.
    fn next_process(&mut self, desk: &mut Desk<Self::Conversation>) {
        desk.exit();
        desk.restart();
    }

    /// A line of this many bytes is too long to keep.
    fn oversized(desk: &mut Desk<Self::Conversation>, bytes: u64);
}

/// A capture of a real agent.
pub(crate) struct Capture {
    lines: Vec<Captured>,
}

struct Captured {
    millis: u64,
    process: u64,
    is_output: bool,
    line: Value,
}

fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(folder)
}

impl Capture {
    /// The names of all captures of an agent.
    pub(crate) fn names<D: Driver>() -> Vec<String> {
        let folder = std::fs::read_dir(fixtures(D::FOLDER)).unwrap();
        let names = folder.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> =
            names.filter_map(|name| name.strip_suffix(".ndjson").map(str::to_owned)).collect();
        names.sort();
        names
    }

    pub(crate) fn load<D: Driver>(name: &str) -> Self {
        let text = std::fs::read_to_string(fixtures(D::FOLDER).join(format!("{name}.ndjson"))).unwrap();
        let read = |line: &str| {
            let mut captured: Value = turnstream_json::from_str(line).unwrap();
            Captured {
                millis: captured["t_ms"].as_u64().unwrap(),
                process: captured["proc"].as_u64().unwrap_or(0),
                is_output: captured["dir"] == "out",
                line: captured["line"].take(),
            }
        };
        Self { lines: text.lines().map(read).collect() }
    }

    /// The lines that the agent printed.
    pub(crate) fn into_outputs(self) -> Vec<Value> {
        self.lines.into_iter().filter(|captured| captured.is_output).map(|captured| captured.line).collect()
    }

    /// The lines that the driver wrote.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Value> {
        self.lines.iter().filter(|captured| !captured.is_output).map(|captured| &captured.line)
    }

    /// The number of lines that the agent printed.
    pub(crate) fn outputs(&self) -> usize {
        self.lines.iter().filter(|captured| captured.is_output).count()
    }

    /// How many lines the agent printed before the first of this kind.
    pub(crate) fn place_of(&self, is_wanted: impl Fn(&Value) -> bool) -> Option<usize> {
        let mut outputs = self.lines.iter().filter(|captured| captured.is_output);
        outputs.position(|captured| is_wanted(&captured.line))
    }

    /// Plays it to the end of its process, and checks the laws.
    pub(crate) fn play<D: Driver>(&self, fault: Fault) -> Desk<D::Conversation> {
        let mut desk = self.play_open::<D>(fault);
        desk.exit();
        desk.assert_lawful(Tail::Settled);
        desk
    }

    /// Plays it, and leaves open what is open then.
    pub(crate) fn play_open<D: Driver>(&self, fault: Fault) -> Desk<D::Conversation> {
        let mut desk = D::desk();
        let mut driver = D::default();
        let start = desk.now;
        let (mut process, mut place) = (0, 0);
        for (count, captured) in self.lines.iter().enumerate() {
            if captured.process != process {
                process = captured.process;
                driver.next_process(&mut desk);
            }
            desk.pass((start + captured.millis).saturating_sub(desk.now));
            if let Fault::Cut(at) = fault
                && place >= at
                && (captured.is_output || at > 0)
            {
                break;
            }
            if !captured.is_output {
                driver.drive(&mut desk, &captured.line, count);
                continue;
            }
            let line = driver.answered(&desk, &captured.line).to_string();
            match fault {
                Fault::Drop(at) if at == place => {}
                Fault::Repeat(at) if at == place => {
                    desk.line(&line);
                    desk.line(&line);
                }
                Fault::Garbage(at) if at == place => {
                    desk.line(D::GARBAGE);
                    desk.line(&line);
                }
                Fault::Oversized(at) if at == place => D::oversized(&mut desk, 1 << 30),
                Fault::None
                | Fault::Drop(_)
                | Fault::Repeat(_)
                | Fault::Cut(_)
                | Fault::Garbage(_)
                | Fault::Oversized(_) => desk.line(&line),
            }
            place += 1;
        }
        desk
    }
}
