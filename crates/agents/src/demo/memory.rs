//! The memory of the demo agent for one session: an append-only file of records, each durable before it is
//! acted on. Without a file the memory ends with the link.

use super::script::DemoScript;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use turnstream_adapter::session_file;
use turnstream_model::event::{Origin, StopReason, TurnError};
use turnstream_model::id::{Key, SessionId};

/// One line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Record {
    /// A run is to be played.
    Run(Run),
    /// The turn of a run begins and takes these prompts.
    Began { run: String, prompts: Vec<String> },
    /// A step is played next.
    Step { run: String, index: usize },
    /// A person has decided.
    Decided { key: Key, decision: Decision },
    /// A tool is run next.
    ToolBegan { key: Key },
    /// The tool was run.
    ToolDone { key: Key, result: ToolResult },
    /// The run has ended.
    Ended { run: String, end: End },
    /// The model to use from the next turn on.
    Model { model: String },
    /// The mode to use from the next turn on.
    Mode { mode: String },
}

/// One thing to play, for a prompt or by itself. Its id is the id of the prompt, or derived from it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) id: String,
    pub(super) origin: Origin,
    /// The prompt of the other client, in a foreign turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) said: Option<String>,
    pub(super) plan: Plan,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Plan {
    Script(DemoScript),
    /// The script is invalid, for this reason.
    Bad(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Decision {
    pub(super) allowed: bool,
    /// The person wants the turn to end there.
    pub(super) stop: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToolResult {
    Done(Value),
    Failed(String),
    /// The tool was begun, and its result was never noted.
    Unknown,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    Done(StopReason),
    Idle(Option<StopReason>),
    Failed(TurnError),
    Cancelled,
    Lost(TurnError),
    Refused(TurnError),
    /// It never became a turn, and nothing was reported.
    Silent,
}

/// The progress of a run.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    pub(super) run: Arc<Run>,
    /// The prompts that its turn took, once it began.
    pub(super) began: Option<Vec<String>>,
    pub(super) steps_begun: usize,
    pub(super) end: Option<End>,
}

/// The contents of the memory, and its file.
#[derive(Default)]
pub(super) struct Memory {
    file: Option<Arc<File>>,
    runs: Vec<Progress>,
    by_id: HashMap<String, usize>,
    decided: HashMap<Key, Decision>,
    tools_begun: HashSet<Key>,
    tools_done: HashMap<Key, ToolResult>,
    pub(super) model: Option<String>,
    pub(super) mode: Option<String>,
}

impl Memory {
    /// Opens the memory of a session. A last line that a crash cut off is dropped: it was never acted on.
    pub(super) fn open(directory: &Path, session: &SessionId) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let path = path_of(directory, session);
        let file = File::options().read(true).append(true).create(true).open(&path)?;
        File::open(directory)?.sync_all()?;
        let bytes = fs::read(&path)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64)?;
            file.sync_all()?;
        }
        let mut memory = Self { file: Some(Arc::new(file)), ..Self::default() };
        for (index, line) in bytes[..whole].split(|byte| *byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let record = serde_json::from_slice(line).map_err(|error| {
                let problem = format!("{} is damaged at line {}: {error}", path.display(), index + 1);
                io::Error::new(io::ErrorKind::InvalidData, problem)
            })?;
            memory.apply(record);
        }
        Ok(memory)
    }

    /// True if it outlives the link.
    pub(super) fn is_durable(&self) -> bool {
        self.file.is_some()
    }

    /// Adds a record. It is durable when this returns.
    pub(super) async fn note(&mut self, record: Record) -> io::Result<()> {
        if let Some(file) = &self.file {
            let mut line = serde_json::to_vec(&record)?;
            line.push(b'\n');
            let file = Arc::clone(file);
            let written = tokio::task::spawn_blocking(move || {
                (&*file).write_all(&line)?;
                file.sync_data()
            });
            written.await.map_err(io::Error::other)??;
        }
        self.apply(record);
        Ok(())
    }

    /// All runs, in their order.
    pub(super) fn runs(&self) -> &[Progress] {
        &self.runs
    }

    pub(super) fn run(&self, id: &str) -> Option<&Progress> {
        self.by_id.get(id).map(|&index| &self.runs[index])
    }

    pub(super) fn decision(&self, key: &Key) -> Option<&Decision> {
        self.decided.get(key)
    }

    pub(super) fn tool_began(&self, key: &Key) -> bool {
        self.tools_begun.contains(key)
    }

    pub(super) fn tool_result(&self, key: &Key) -> Option<&ToolResult> {
        self.tools_done.get(key)
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Run(run) => {
                if let Entry::Vacant(entry) = self.by_id.entry(run.id.clone()) {
                    entry.insert(self.runs.len());
                    self.runs.push(Progress { run: Arc::new(run), began: None, steps_begun: 0, end: None });
                }
            }
            Record::Began { run, prompts } => {
                if let Some(progress) = self.progress(&run) {
                    progress.began.get_or_insert(prompts);
                }
            }
            Record::Step { run, index } => {
                if let Some(progress) = self.progress(&run) {
                    progress.steps_begun = progress.steps_begun.max(index + 1);
                }
            }
            Record::Decided { key, decision } => {
                self.decided.entry(key).or_insert(decision);
            }
            Record::ToolBegan { key } => {
                self.tools_begun.insert(key);
            }
            Record::ToolDone { key, result } => {
                self.tools_done.entry(key).or_insert(result);
            }
            Record::Ended { run, end } => {
                if let Some(progress) = self.progress(&run) {
                    progress.end.get_or_insert(end);
                }
            }
            Record::Model { model } => self.model = Some(model),
            Record::Mode { mode } => self.mode = Some(mode),
        }
    }

    fn progress(&mut self, id: &str) -> Option<&mut Progress> {
        self.by_id.get(id).map(|&index| &mut self.runs[index])
    }
}

/// Removes the memory of a session, durably.
pub(super) fn forget(directory: &Path, session: &SessionId) -> io::Result<()> {
    match fs::remove_file(path_of(directory, session)) {
        Ok(()) => File::open(directory)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The file of a session.
fn path_of(directory: &Path, session: &SessionId) -> PathBuf {
    directory.join(session_file(session, ".jsonl"))
}

#[cfg(test)]
mod tests {
    use super::{DemoScript, End, Memory, Origin, Plan, Record, Run, StopReason};
    use std::fs;
    use std::io::Write;
    use turnstream_model::id::SessionId;

    fn run(id: &str) -> Record {
        let script = DemoScript::from_json(r#"[{"do":"text","text":"hi"}]"#).unwrap();
        Record::Run(Run { id: id.to_owned(), origin: Origin::Prompt, said: None, plan: Plan::Script(script) })
    }

    #[tokio::test]
    async fn what_was_noted_is_there_after_a_crash_in_the_middle_of_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let session = SessionId::from("../ses 1");
        let mut memory = Memory::open(directory.path(), &session).unwrap();
        memory.note(run("p1")).await.unwrap();
        memory.note(Record::Step { run: "p1".to_owned(), index: 0 }).await.unwrap();
        memory
            .note(Record::Ended { run: "p1".to_owned(), end: End::Done(StopReason::EndTurn) })
            .await
            .unwrap();
        drop(memory);
        let path = directory.path().join("%2e%2e%2fses%201.jsonl");
        let mut file = fs::File::options().append(true).open(&path).unwrap();
        file.write_all(br#"{"run":{"id":"p2""#).unwrap();

        let mut memory = Memory::open(directory.path(), &session).unwrap();
        assert_eq!(memory.runs().len(), 1);
        let progress = memory.run("p1").unwrap();
        assert_eq!((progress.steps_begun, &progress.end), (1, &Some(End::Done(StopReason::EndTurn))));
        memory.note(run("p3")).await.unwrap();
        let memory = Memory::open(directory.path(), &session).unwrap();
        assert!(memory.run("p3").is_some());
    }

    #[test]
    fn damage_in_the_middle_is_named() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("s.jsonl"), "{\"model\":{\"model\":\"m\"}}\nnoise\n").unwrap();
        let error = Memory::open(directory.path(), &SessionId::from("s")).err().unwrap().to_string();
        assert!(error.contains("s.jsonl is damaged at line 2"), "{error}");
    }
}
