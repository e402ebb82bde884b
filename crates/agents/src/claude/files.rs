//! The files of one session: those of the adapter in the data directory, and Claude Code's own transcript.

use super::transcript::ProcessEnd;
use super::usage::Totals;
use super::wire::LineName;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use turnstream_adapter::{AgentError, session_file};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// The endings of the adapter's files.
const RECORD: &str = ".json";
const OUTPUT: &str = ".log";
const NOTE: &str = ".session";
const MCP: &str = ".mcp.json";
const EXIT: &str = ".exit";

/// The adapter's files of one session.
#[derive(Clone, Debug)]
pub(super) struct SessionFiles {
    /// The record of the process.
    pub(super) record: PathBuf,
    /// What the process prints to standard error.
    pub(super) output: PathBuf,
    /// The MCP servers of the session, for the process to read.
    pub(super) mcp: PathBuf,
    /// The exit status of the last process.
    pub(super) exit: PathBuf,
    /// What is noted of the session.
    note: PathBuf,
}

/// What is noted of a session in a file. The log may lack the native id if the gateway was killed right
/// after the first prompt was sent.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct SessionNote {
    /// Claude Code's id of the session, once a process was started for it.
    native_id: String,
    /// Claude Code has a conversation in it.
    used: bool,
    /// The last prompt that was given to a process.
    #[serde(default)]
    given: Option<GivenPrompt>,
}

/// A prompt that was given to a process, and the moment before that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct GivenPrompt {
    pub(super) native_id: String,
    pub(super) time: Time,
    /// What the process had counted.
    pub(super) totals: Totals,
}

/// The directory in which Claude Code keeps its own files.
#[derive(Clone, Debug)]
pub(super) struct ClaudeHome {
    directory: Option<PathBuf>,
}

/// What Claude Code has stored of a session.
#[derive(Debug, Default)]
pub(super) struct StoredSession {
    pub(super) transcript: Vec<u8>,
    pub(super) subagents: Vec<StoredSubagent>,
}

/// What Claude Code has stored of a subagent.
#[derive(Debug)]
pub(super) struct StoredSubagent {
    /// The call that started it.
    pub(super) call: String,
    pub(super) transcript: Vec<u8>,
}

/// The file beside the transcript of a subagent.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SubagentMeta {
    tool_use_id: String,
}

/// Nothing says where Claude Code keeps its own files.
#[derive(Debug, thiserror::Error)]
#[error(
    "neither HOME nor CLAUDE_CONFIG_DIR is set, so the sessions of Claude Code cannot be found: set HOME for the \
     gateway, or one of them in `env` of the agent"
)]
pub(super) struct NoHome;

impl AgentError for NoHome {
    fn for_log(&self) -> String {
        self.to_string()
    }
}

// === impl SessionFiles ===

impl SessionFiles {
    pub(super) fn new(state: &Path, session: &SessionId) -> Self {
        let file = |ending| state.join(session_file(session, ending));
        Self {
            record: file(RECORD),
            output: file(OUTPUT),
            mcp: file(MCP),
            exit: file(EXIT),
            note: file(NOTE),
        }
    }

    /// Notes that a process is about to be started for the session under this native id.
    pub(super) fn note_start(&self, native_id: &str) -> io::Result<()> {
        if self.read_note()?.native_id == native_id {
            return Ok(());
        }
        self.write_note(&SessionNote { native_id: native_id.to_owned(), ..SessionNote::default() })
    }

    /// Notes that Claude Code has a conversation under this native id.
    pub(super) fn note_use(&self, native_id: &str) -> io::Result<()> {
        let note = self.read_note()?;
        self.write_note(&SessionNote { native_id: native_id.to_owned(), used: true, ..note })
    }

    /// Notes that a prompt is about to be given to the process. One that is not noted never reached it.
    pub(super) fn note_prompt(&self, given: GivenPrompt) -> io::Result<()> {
        let note = self.read_note()?;
        self.write_note(&SessionNote { given: Some(given), ..note })
    }

    /// Notes that the last prompt never reached its process.
    pub(super) fn forget_prompt(&self) -> io::Result<()> {
        let note = self.read_note()?;
        self.write_note(&SessionNote { given: None, ..note })
    }

    /// The last prompt that was given to a process. None if the note cannot be read.
    pub(super) fn given_prompt(&self) -> Option<GivenPrompt> {
        self.read_note().ok()?.given
    }

    /// Whether this prompt may have reached a process. Prompts are given one at a time. If the note cannot be
    /// read, it may.
    pub(super) fn may_have(&self, prompt: &str) -> bool {
        let is_it = |given: GivenPrompt| given.native_id == prompt;
        self.read_note().map_or(true, |note| note.given.is_some_and(is_it))
    }

    /// The native id under which the last process was started.
    pub(super) fn noted_native_id(&self) -> io::Result<Option<String>> {
        Ok(Some(self.read_note()?.native_id).filter(|native_id| !native_id.is_empty()))
    }

    /// Whether Claude Code once had a conversation under this native id.
    pub(super) fn is_used(&self, native_id: &str) -> bool {
        let note = self.read_note().unwrap_or_else(|error| {
            tracing::warn!(path = %self.note.display(), %error, "the note of a session cannot be read");
            SessionNote::default()
        });
        note.used && note.native_id == native_id
    }

    /// A session without a note is a new one.
    fn read_note(&self) -> io::Result<SessionNote> {
        match fs::read(&self.note) {
            Ok(note) => Ok(serde_json::from_slice(&note)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(SessionNote::default()),
            Err(error) => Err(error),
        }
    }

    /// Replaces the note. After a crash either the old or the new one is complete.
    fn write_note(&self, note: &SessionNote) -> io::Result<()> {
        let fresh = self.note.with_extension("session-new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(&serde_json::to_vec(note)?)?;
        file.sync_all()?;
        fs::rename(&fresh, &self.note)?;
        let directory = self.note.parent().unwrap_or(Path::new("."));
        File::open(directory)?.sync_all()
    }

    /// Writes the MCP servers, which may hold secrets. The arguments of a process can be read by everybody,
    /// so they are in a file.
    pub(super) fn write_mcp(&self, config: &Value) -> io::Result<()> {
        remove_mcp(&self.record);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.mcp)?;
        file.write_all(config.to_string().as_bytes())
    }

    /// How the last process has ended. Without a file it was killed together with the shell that started it.
    pub(super) fn process_end(&self) -> ProcessEnd {
        match fs::read_to_string(&self.exit).as_deref().map(str::trim) {
            Ok("0") => ProcessEnd::Orderly,
            // A failure or a signal may have come before the transcript was written.
            Ok(_) | Err(_) => ProcessEnd::Unknown,
        }
    }

    /// Forgets how the last process has ended: another one is started.
    pub(super) fn remove_exit(&self) -> io::Result<()> {
        match fs::remove_file(&self.exit) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes all of them.
    pub(super) fn remove(&self) -> io::Result<()> {
        let Self { record, output, mcp, exit, note } = self;
        for file in [record, output, mcp, exit, note] {
            match fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Removes the MCP servers of the session with this record: no process reads them any more.
pub(super) fn remove_mcp(record: &Path) {
    // The name of a session's file has no other dot.
    let path = record.with_extension(MCP.trim_start_matches('.'));
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "cannot remove the MCP servers of a session");
        }
        Ok(()) | Err(_) => {}
    }
}

/// The records of processes in the state directory of an agent.
pub(super) fn records(state: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(state).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_record = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.ends_with(RECORD) && !name.ends_with(MCP)
    };
    entries.filter(is_record).collect()
}

// === impl ClaudeHome ===

impl ClaudeHome {
    /// The directory that a process with these variables uses, besides those of this process that it
    /// inherits.
    pub(super) fn of(env: &[(OsString, OsString)]) -> Self {
        let given = |name: &str| {
            let found = env.iter().rev().find(|(given, _)| given == name);
            found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
        };
        let inherited = || std::env::var_os("HOME").filter(|home| !home.is_empty());
        let home = || given("HOME").or_else(inherited);
        let directory = given("CLAUDE_CONFIG_DIR")
            .map(PathBuf::from)
            .or_else(|| home().map(|home| PathBuf::from(home).join(".claude")));
        Self { directory }
    }

    /// Fails if the directory is not known.
    pub(super) fn check(&self) -> Result<(), NoHome> {
        self.directory.as_ref().map(|_| ()).ok_or(NoHome)
    }

    /// The transcript of the session with this native id. Its folder is named after the working directory in
    /// a way that differs between versions, so all folders are looked at.
    pub(super) fn transcript(&self, native_id: &str) -> Option<PathBuf> {
        let projects = self.directory.as_ref()?.join("projects");
        let file = format!("{native_id}.jsonl");
        let folders = fs::read_dir(projects).ok()?.flatten();
        folders.map(|folder| folder.path().join(&file)).find(|path| path.is_file())
    }
}

impl ClaudeHome {
    /// The transcript of a session that has a conversation. A process that is killed early leaves one without
    /// any message: it can neither be resumed nor begun under the same id.
    pub(super) fn conversation(&self, native_id: &str) -> Option<PathBuf> {
        let path = self.transcript(native_id)?;
        let lines = BufReader::new(File::open(&path).ok()?).split(b'\n').map_while(Result::ok);
        let mut lines = lines.filter_map(|line| turnstream_json::from_slice::<LineName>(&line).ok());
        lines.any(|line| matches!(line.kind.as_str(), "assistant" | "user")).then_some(path)
    }

    /// True if a process can be started for a session with this native id.
    pub(super) fn can_start(&self, native_id: &str) -> bool {
        self.transcript(native_id).is_none() || self.conversation(native_id).is_some()
    }

    /// Reads the transcript of a session; empty if there is none.
    pub(super) fn read_transcript(&self, native_id: &str) -> io::Result<Vec<u8>> {
        self.transcript(native_id).map_or(Ok(Vec::new()), fs::read)
    }

    /// Reads what is stored of a session, with its subagents.
    pub(super) fn read_session(&self, native_id: &str) -> io::Result<StoredSession> {
        self.transcript(native_id).map_or(Ok(StoredSession::default()), |path| StoredSession::read(&path))
    }
}

impl StoredSession {
    /// Reads the session with this transcript.
    pub(super) fn read(transcript: &Path) -> io::Result<Self> {
        let folder = transcript.with_extension("").join("subagents");
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries.collect::<io::Result<Vec<_>>>()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        paths.sort();
        let subagents = paths.iter().filter_map(|path| read_subagent(path).transpose());
        let subagents = subagents.collect::<io::Result<Vec<_>>>()?;
        Ok(Self { transcript: fs::read(transcript)?, subagents })
    }
}

/// Reads a subagent, if this is the transcript of one and the file beside it names its call.
fn read_subagent(path: &Path) -> io::Result<Option<StoredSubagent>> {
    if path.extension().is_none_or(|ending| ending != "jsonl") {
        return Ok(None);
    }
    let meta = match fs::read(path.with_extension("meta.json")) {
        Ok(meta) => serde_json::from_slice::<SubagentMeta>(&meta).unwrap_or_default(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(StoredSubagent { call: meta.tool_use_id, transcript: fs::read(path)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_used_under_one_native_id() {
        let state = tempfile::tempdir().unwrap();
        let files = SessionFiles::new(state.path(), &SessionId::from("ses_1"));
        assert!(!files.is_used("a") && files.noted_native_id().unwrap().is_none());
        files.note_start("a").unwrap();
        assert_eq!(files.noted_native_id().unwrap().as_deref(), Some("a"));
        assert!(!files.is_used("a"));
        files.note_use("a").unwrap();
        files.note_start("a").unwrap();
        assert!(files.is_used("a") && !files.is_used("b"));
        let given = GivenPrompt { native_id: "p1".to_owned(), time: Time(1), totals: Totals::default() };
        files.note_prompt(given.clone()).unwrap();
        assert_eq!(files.given_prompt(), Some(given));
        files.note_use("a").unwrap();
        assert!(files.is_used("a") && files.may_have("p1") && !files.may_have("p2"));
        files.forget_prompt().unwrap();
        assert!(files.is_used("a") && !files.may_have("p1"));
        fs::write(&files.record, "{}").unwrap();
        fs::write(&files.mcp, "{}").unwrap();
        assert_eq!(records(state.path()), std::slice::from_ref(&files.record));
        files.remove().unwrap();
        files.remove().unwrap();
        assert!(!files.is_used("a"));
        assert!(records(state.path()).is_empty());
    }

    #[test]
    fn a_transcript_without_a_message_is_no_conversation() {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join(".claude/projects/-work");
        fs::create_dir_all(&project).unwrap();
        let claude = ClaudeHome::of(&[("HOME".into(), home.path().into())]);
        assert!(claude.can_start("id") && claude.conversation("id").is_none());
        let fixture = "../../fixtures/claude/transcripts/pipes_lost.jsonl";
        let whole = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture)).unwrap();
        let lines: Vec<&str> = whole.lines().collect();
        let path = project.join("id.jsonl");
        fs::write(&path, lines[..2].join("\n")).unwrap();
        assert!(!claude.can_start("id") && claude.conversation("id").is_none());
        fs::write(&path, lines[..3].join("\n")).unwrap();
        assert!(claude.can_start("id") && claude.conversation("id") == Some(path));
    }

    #[test]
    fn a_transcript_is_found_in_the_directory_that_the_process_uses() {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join(".claude/projects/-work");
        fs::create_dir_all(&project).unwrap();
        fs::write(project.join("id-1.jsonl"), "").unwrap();
        let of = |name: &str, value: &Path| ClaudeHome::of(&[(name.into(), value.into())]);
        let found = Some(project.join("id-1.jsonl"));
        assert_eq!(of("HOME", home.path()).transcript("id-1"), found);
        assert_eq!(of("CLAUDE_CONFIG_DIR", &home.path().join(".claude")).transcript("id-1"), found);
        assert_eq!(of("HOME", home.path()).transcript("id-2"), None);
        assert_eq!(of("HOME", &home.path().join("none")).transcript("id-1"), None);
    }
}
