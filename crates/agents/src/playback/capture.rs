//! Plays a capture: what its driver wrote becomes commands, what the agent printed is read, with faults.

use super::{Decoder, Desk, Fault, fixtures};
use serde_json::Value;
use std::marker::PhantomData;
use turnstream_testkit::lawful::Tail;

/// A decoder whose captures can be played.
pub(crate) trait Played: Decoder + Sized {
    /// What has to be known of the ids in a capture.
    type Ids: Default;

    /// What the driver of the capture wrote, as a command of the keeper. `count` is the place of the line.
    fn drive(desk: &mut Desk<Self>, line: &Value, count: usize, ids: &mut Self::Ids);

    /// A line of the agent, with our id of the request that it answers.
    fn answered(desk: &Desk<Self>, line: &Value, ids: &Self::Ids) -> Value;
}

/// A capture of the real agent.
pub(crate) struct Capture<D> {
    lines: Vec<Captured>,
    decoder: PhantomData<D>,
}

struct Captured {
    millis: u64,
    process: u64,
    is_output: bool,
    line: Value,
}

impl<D: Played> Capture<D> {
    pub(crate) fn load(name: &str) -> Self {
        let text = std::fs::read_to_string(fixtures(D::AGENT).join(format!("{name}.ndjson"))).unwrap();
        let read = |line: &str| {
            let mut captured: Value = turnstream_json::from_str(line).unwrap();
            Captured {
                millis: captured["t_ms"].as_u64().unwrap(),
                process: captured["proc"].as_u64().unwrap_or(0),
                is_output: captured["dir"] == "out",
                line: captured["line"].take(),
            }
        };
        Self { lines: text.lines().map(read).collect(), decoder: PhantomData }
    }

    /// The lines that the agent printed.
    pub(crate) fn into_outputs(self) -> Vec<Value> {
        self.lines.into_iter().filter(|captured| captured.is_output).map(|captured| captured.line).collect()
    }

    /// The number of lines that the agent printed.
    pub(crate) fn outputs(&self) -> usize {
        self.lines.iter().filter(|captured| captured.is_output).count()
    }

    /// Plays it to the end of its process, and checks the laws.
    pub(crate) fn play(&self, fault: Fault) -> Desk<D> {
        let mut desk = self.play_open(fault);
        desk.exit();
        desk.assert_lawful(Tail::Settled);
        desk
    }

    /// Plays it, and leaves open what is open then.
    pub(crate) fn play_open(&self, fault: Fault) -> Desk<D> {
        let mut desk = Desk::new();
        let start = desk.now;
        let (mut process, mut place) = (0, 0);
        let mut ids = D::Ids::default();
        for (count, captured) in self.lines.iter().enumerate() {
            if captured.process != process {
                process = captured.process;
                desk.exit();
                desk.restart();
            }
            desk.pass((start + captured.millis).saturating_sub(desk.now));
            if let Fault::Cut(at) = fault
                && place >= at
                && (captured.is_output || at > 0)
            {
                break;
            }
            if !captured.is_output {
                D::drive(&mut desk, &captured.line, count, &mut ids);
                continue;
            }
            let line = D::answered(&desk, &captured.line, &ids).to_string();
            match fault {
                Fault::Drop(at) if at == place => {}
                Fault::Repeat(at) if at == place => {
                    desk.line(&line);
                    desk.line(&line);
                }
                Fault::Garbage(at) if at == place => {
                    desk.line("{\"type\":\"assis");
                    desk.line(&line);
                }
                Fault::Oversized(at) if at == place => {
                    desk.conversation.oversized(1 << 30, turnstream_model::time::Time(desk.now));
                }
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
