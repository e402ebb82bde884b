//! The journal of one session: an append-only file of records, each durable before it is acted on.
//!
//! Secrets are redacted before a record is written. What the agent has in memory is not redacted, so the
//! model sees the original until the gateway is started again.

use super::tools::{Rule, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use turnstream_adapter::session_file;
use turnstream_model::event::{StopReason, TurnError, Usage};
use turnstream_model::id::{Key, SessionId};
use turnstream_redact::Rules;

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Record {
    /// A prompt, which is a turn with the same id.
    Prompt { id: String, content: Vec<Value> },
    /// The complete answer to a model call.
    Step { turn: String, step: Step },
    /// A person has allowed this for the rest of the session.
    Always { rule: Rule },
    /// A tool is run next.
    ToolBegan { key: Key },
    /// The result of a tool.
    ToolDone { key: Key, result: ToolResult },
    /// The tool was begun by an earlier gateway, and nobody knows what it has done.
    ToolUnknown { key: Key },
    /// The model sees less of the conversation from now on.
    Compacted { compaction: Compaction },
    /// The turn has ended.
    Ended { turn: String, end: End },
}

/// The complete answer to a model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Step {
    /// The number of the attempt in its turn.
    pub(super) attempt: u32,
    /// The wire format. What only this format can express is not sent in another one.
    pub(super) format: String,
    pub(super) model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) finish: Option<String>,
    /// Why the turn stops with this step. Absent if it has calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stop: Option<StopReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Usage>,
    pub(super) items: Vec<Item>,
}

/// One complete item of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Item {
    /// Its number in the attempt.
    pub(super) number: u32,
    /// The provider's id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    pub(super) content: Content,
    /// JSON objects that were received beside the content, and are sent back with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unread: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Content {
    Message {
        text: String,
    },
    Reasoning {
        text: String,
        /// Opaque data that goes back unchanged.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<Kept>,
    },
    Call {
        name: String,
        arguments: String,
        /// The arguments are not the original ones: they held a secret. The call must not run like this.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        redacted: bool,
    },
    /// An item of another kind, as received.
    Other {
        raw: String,
    },
}

/// Opaque data of a reasoning item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kept {
    Signature(String),
    Redacted(String),
    Encrypted(String),
    Details(String),
}

/// What the model no longer sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Compaction {
    /// The turn in which the conversation became too long.
    pub(super) turn: String,
    /// Results of tools are left out before this step of that turn, counted from 0, and in earlier turns.
    pub(super) steps: usize,
    /// Earlier turns are left out as a whole.
    pub(super) drops_turns: bool,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    Completed(StopReason),
    Cancelled,
    Failed(TurnError),
    Lost(TurnError),
}

/// The file of a session.
pub(super) struct Journal {
    file: Arc<File>,
    rules: Rules,
}

impl Journal {
    /// The file of a session in this directory.
    pub(super) fn path(directory: &Path, session: &SessionId) -> PathBuf {
        directory.join(session_file(session, ".jsonl"))
    }

    /// Opens a journal, and reads its records. A last line that a crash cut off is dropped: it was never
    /// acted on.
    pub(super) fn open(
        directory: &Path,
        session: &SessionId,
        rules: Rules,
    ) -> io::Result<(Self, Vec<Record>)> {
        fs::create_dir_all(directory)?;
        let path = Self::path(directory, session);
        let file = File::options().read(true).append(true).create(true).mode(0o600).open(&path)?;
        File::open(directory)?.sync_all()?;
        let bytes = fs::read(&path)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64)?;
            file.sync_all()?;
        }
        let lines = bytes[..whole].split(|byte| *byte == b'\n').enumerate();
        let records = lines.filter(|(_, line)| !line.is_empty()).map(|(index, line)| {
            serde_json::from_slice(line).map_err(|error| {
                let problem = format!("{} is damaged at line {}: {error}", path.display(), index + 1);
                io::Error::new(io::ErrorKind::InvalidData, problem)
            })
        });
        let records = records.collect::<io::Result<Vec<Record>>>()?;
        Ok((Self { file: Arc::new(file), rules }, records))
    }

    /// Removes the journal of a session, durably.
    pub(super) fn remove(directory: &Path, session: &SessionId) -> io::Result<()> {
        match fs::remove_file(Self::path(directory, session)) {
            Ok(()) => File::open(directory)?.sync_all(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adds a record. It is durable when this returns.
    pub(super) async fn note(&self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(&record.redacted(&self.rules))?;
        line.push(b'\n');
        let file = Arc::clone(&self.file);
        let written = tokio::task::spawn_blocking(move || {
            let length = file.metadata()?.len();
            let written = (&*file).write_all(&line).and_then(|()| file.sync_data());
            if written.is_err() {
                // Half a line in the middle would make the journal unreadable.
                file.set_len(length)?;
            }
            written
        });
        written.await.map_err(io::Error::other)?
    }
}

impl Record {
    /// The same without secrets.
    fn redacted(&self, rules: &Rules) -> Self {
        let mut record = self.clone();
        match &mut record {
            Self::Prompt { content, .. } => {
                for block in content {
                    rules.redact_json(block);
                }
            }
            Self::Step { step, .. } => {
                for item in &mut step.items {
                    item.redact(rules);
                }
            }
            Self::ToolDone { result, .. } => {
                redact(&mut result.text, rules);
            }
            Self::Always { rule: Rule::Command(command) } => {
                redact(command, rules);
            }
            Self::Ended { end: End::Failed(error) | End::Lost(error), .. } => {
                redact(&mut error.message, rules);
            }
            Self::Always { rule: Rule::Changes }
            | Self::Ended { end: End::Completed(_) | End::Cancelled, .. }
            | Self::ToolBegan { .. }
            | Self::ToolUnknown { .. }
            | Self::Compacted { .. } => {}
        }
        record
    }
}

impl Item {
    fn redact(&mut self, rules: &Rules) {
        match &mut self.content {
            Content::Message { text } => {
                redact(text, rules);
            }
            Content::Reasoning { text, kept } => {
                // Opaque data is not text. A signature is useless without its own text.
                if redact(text, rules) {
                    kept.clear();
                }
            }
            Content::Call { arguments, redacted, .. } => {
                *redacted |= redact_source(arguments, rules);
            }
            Content::Other { raw } => {
                redact_source(raw, rules);
            }
        }
        for raw in &mut self.unread {
            redact_source(raw, rules);
        }
    }
}

/// True if the text changed.
fn redact(text: &mut String, rules: &Rules) -> bool {
    match rules.redact(text) {
        Cow::Borrowed(_) => false,
        Cow::Owned(redacted) => {
            *text = redacted;
            true
        }
    }
}

/// Redacts the strings of a JSON text. A text that is no JSON is redacted as a whole. True if it changed.
fn redact_source(source: &mut String, rules: &Rules) -> bool {
    let Ok(mut value) = turnstream_json::from_str::<Value>(source) else {
        return redact(source, rules);
    };
    let is_changed = rules.redact_json(&mut value);
    if is_changed {
        *source = value.to_string();
    }
    is_changed
}

#[cfg(test)]
mod tests {
    use super::{Content, Item, Journal, Kept, Record, Step};
    use serde_json::json;
    use std::io::Write;
    use turnstream_model::id::SessionId;
    use turnstream_redact::Rules;

    const SECRET: &str = "sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn item(content: Content) -> Item {
        Item { number: 0, id: None, content, unread: Vec::new() }
    }

    #[tokio::test]
    async fn records_are_read_back_without_secrets_and_without_a_line_that_was_cut() {
        let home = tempfile::tempdir().unwrap();
        let session = SessionId::from("../ses 1");
        let open = || Journal::open(home.path(), &session, Rules::standard()).unwrap();
        let (journal, records) = open();
        assert_eq!(records, []);
        let prompt =
            Record::Prompt { id: "p1".to_owned(), content: vec![json!({"type": "text", "text": "Hi"})] };
        let call = |arguments: String, redacted| {
            item(Content::Call { name: "bash".to_owned(), arguments, redacted })
        };
        let step = |text: &str, arguments: String, redacted| Record::Step {
            turn: "p1".to_owned(),
            step: Step {
                attempt: 1,
                format: "chat".to_owned(),
                model: "m".to_owned(),
                finish: None,
                stop: None,
                usage: None,
                items: vec![
                    item(Content::Message { text: text.to_owned() }),
                    item(Content::Reasoning {
                        text: String::new(),
                        kept: vec![Kept::Signature(SECRET.to_owned())],
                    }),
                    call(r#"{"command":"true"}"#.to_owned(), false),
                    call(arguments, redacted),
                ],
            },
        };
        let said = format!("the key is {SECRET}");
        journal.note(&prompt).await.unwrap();
        journal.note(&step(&said, json!({ "command": said }).to_string(), false)).await.unwrap();
        let path = Journal::path(home.path(), &session);
        std::fs::File::options().append(true).open(&path).unwrap().write_all(b"{\"ended\"").unwrap();
        let hidden = Rules::standard().redact(&said).into_owned();
        assert!(!hidden.contains(SECRET));
        let (_, records) = open();
        assert_eq!(records, [prompt, step(&hidden, json!({ "command": hidden }).to_string(), true)]);
        Journal::remove(home.path(), &session).unwrap();
        Journal::remove(home.path(), &session).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn damage_in_the_middle_is_named() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("s.jsonl"), "noise\n").unwrap();
        let opened = Journal::open(home.path(), &SessionId::from("s"), Rules::standard());
        let error = opened.err().unwrap().to_string();
        assert!(error.contains("s.jsonl is damaged at line 1"), "{error}");
    }
}
