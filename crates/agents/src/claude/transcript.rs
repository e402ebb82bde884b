//! Claude Code's own transcript of a session, a file with one JSON object per line. It tells how the work
//! ended that was open when the gateway was killed.
//!
//! - A prompt is a `user` line under the uuid it was sent with. A local command such as `/compact` is stored
//!   under another one.
//! - A message has one line per block, with its final stop reason and usage.
//! - There is no line for the end of a turn. The last line of its work shows the end.
//! - The file is written with a delay: a killed process may have worked without a trace.

use super::conversation::{Conversation, StoredStep, StoredTurn};
use super::wire::{Block, Content, Line, Message};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashSet;
use turnstream_adapter::{Fate, Observed, OpenWork};
use turnstream_model::id::Key;
use turnstream_model::signal::{ProbedStatus, Signal};

/// The texts that the agent stores where a turn was interrupted. They have no other mark.
const INTERRUPTED: &[&str] = &["[Request interrupted by user]", "[Request interrupted by user for tool use]"];

/// How the process that wrote a transcript has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessEnd {
    /// By itself: everything it did is in the file.
    Orderly,
    /// It was killed, or nobody knows: the last lines may be missing.
    Unknown,
}

/// The lines of a transcript that are about the conversation.
pub(super) struct Transcript<'a> {
    lines: Vec<StoredLine>,
    /// The whole file.
    text: &'a [u8],
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StoredLine {
    #[serde(rename = "type")]
    kind: String,
    subtype: String,
    uuid: String,
    message: Option<Message>,
    tool_use_result: Option<Value>,
    /// All user lines of a turn have the same.
    prompt_id: Option<String>,
    is_meta: bool,
    is_sidechain: bool,
    is_compact_summary: bool,
    is_api_error_message: bool,
    api_error_status: Option<u16>,
    error: Option<String>,
    request_id: Option<String>,
}

impl<'a> Transcript<'a> {
    /// Reads a transcript. Lines that cannot be read, such as a cut last one, are skipped.
    pub(super) fn parse(bytes: &'a [u8]) -> Self {
        let mut seen = HashSet::new();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let stored = lines.filter_map(|line| turnstream_json::from_slice::<StoredLine>(line).ok());
        // A compaction stores the last messages again, under the same uuids.
        let lines = stored.filter(|line| line.is_work() && seen.insert(line.uuid.clone()));
        Self { lines: lines.collect(), text: bytes }
    }

    /// What became of the open work, in the order of [`OpenWork`].
    pub(super) fn recover(&self, open: &OpenWork, end: ProcessEnd) -> Vec<Observed> {
        let mut observed = Vec::new();
        if open.turn.is_some() {
            observed.extend(Conversation::replay(self.open_turn(open)));
        }
        let mut fates = Vec::new();
        for native_id in &open.prompts {
            let fate = match self.place_of(native_id) {
                Some(place) => {
                    let turn = self.turn(place, std::slice::from_ref(native_id), &[]);
                    observed.extend(Conversation::replay(turn));
                    Fate::Taken
                }
                None if end == ProcessEnd::Orderly && !self.mentions(native_id) => Fate::NeverSeen,
                None => Fate::Unknown,
            };
            fates.push(Observed::Fate { native_id: native_id.clone(), fate });
        }
        observed.extend(fates);
        let status = ProbedStatus::Idle;
        observed
            .extend(open.turn.clone().map(|turn| Observed::Signal(Signal::StatusProbed { turn, status })));
        observed.push(Observed::CaughtUp);
        observed
    }

    /// The open turn, found by its prompts or else by its model calls.
    fn open_turn(&self, open: &OpenWork) -> StoredTurn {
        let by_prompt = open.taken.iter().find_map(|prompt| self.place_of(prompt));
        let is_call = |line: &StoredLine| {
            line.message_id().is_some_and(|id| open.calls.iter().any(|call| call.as_str() == id))
        };
        let by_call = || self.lines.iter().position(is_call);
        match by_prompt.or_else(by_call) {
            Some(place) => self.turn(place, &open.taken, &open.calls),
            None => StoredTurn { prompt: open.taken.first().cloned(), steps: Vec::new(), result: None },
        }
    }

    /// The turn that begins at this line. `calls` are the model calls of it that the log has.
    fn turn(&self, place: usize, prompts: &[String], calls: &[Key]) -> StoredTurn {
        let begin = &self.lines[place];
        let mut ids: HashSet<&str> = begin.prompt_id.as_deref().into_iter().collect();
        let mut work: Vec<&StoredLine> = Vec::new();
        if begin.kind == "assistant" {
            work.push(begin);
        }
        for line in &self.lines[place + 1..] {
            // A compaction after the answer was asked for by a later prompt.
            let is_over = || work.last().is_some_and(|last| last.result().is_some());
            if prompts.contains(&line.uuid) {
                ids.extend(line.prompt_id.as_deref());
            } else if line.begins_other_turn(&mut ids) || (line.kind == "system" && is_over()) {
                break;
            } else {
                work.push(line);
            }
        }
        let is_logged = |id: &str| calls.iter().any(|call| call.as_str() == id);
        let is_stored = |call: &Key| work.iter().any(|line| line.message_id() == Some(call.as_str()));
        let mut repeats = calls.last().is_some_and(|last| !is_stored(last));
        let mut steps = Vec::new();
        for line in &work {
            if repeats && line.message_id().is_some_and(|id| !is_logged(id)) {
                repeats = false;
                steps.push(StoredStep::Repeated);
            }
            steps.extend(line.live().map(|line| StoredStep::Line(Box::new(line))));
        }
        let result = work.iter().rev().find(|line| line.shows_progress()).and_then(|line| line.result());
        StoredTurn { prompt: prompts.first().cloned(), steps, result }
    }

    /// The place of a prompt.
    fn place_of(&self, native_id: &str) -> Option<usize> {
        self.lines.iter().position(|line| line.kind == "user" && line.uuid == native_id)
    }

    /// True if the file has this id anywhere, also in a line that is not understood.
    fn mentions(&self, native_id: &str) -> bool {
        let id = native_id.as_bytes();
        !id.is_empty() && self.text.windows(id.len()).any(|window| window == id)
    }
}

impl StoredLine {
    /// Lines of subagents are in files of their own, in newer versions.
    fn is_work(&self) -> bool {
        let is_boundary = self.kind == "system" && self.subtype == "compact_boundary";
        !self.is_sidechain && (is_boundary || matches!(self.kind.as_str(), "assistant" | "user"))
    }

    /// The id of a message of the model.
    fn message_id(&self) -> Option<&str> {
        let message = self.message.as_ref().filter(|_| self.kind == "assistant")?;
        (!self.is_api_error_message).then_some(message.id.as_str())
    }

    /// True for the first line of another turn. `ids` are those of this turn's user lines.
    fn begins_other_turn<'a>(&'a self, ids: &mut HashSet<&'a str>) -> bool {
        if self.kind != "user" || self.is_compact_summary {
            return false;
        }
        match &self.prompt_id {
            // A turn that was found by a call has no id yet.
            Some(id) if ids.is_empty() && self.has_result() => {
                ids.insert(id);
                false
            }
            Some(id) => !ids.contains(id.as_str()),
            None => !self.is_meta && !self.has_result() && !self.is_interrupt(),
        }
    }

    fn blocks(&self) -> &[Block] {
        match self.message.as_ref().map(|message| &message.content) {
            Some(Content::Blocks(blocks)) => blocks,
            Some(Content::Text(_)) | None => &[],
        }
    }

    fn has_result(&self) -> bool {
        self.blocks().iter().any(Block::is_result)
    }

    fn is_interrupt(&self) -> bool {
        let is_mark = |block: &Block| block.text.as_deref().is_some_and(|text| INTERRUPTED.contains(&text));
        self.kind == "user" && self.blocks().iter().any(is_mark)
    }

    /// True for a line after which the turn may be over.
    fn shows_progress(&self) -> bool {
        matches!(self.kind.as_str(), "assistant" | "user") && !self.is_compact_summary
    }

    /// The line as the process would have printed it; `None` for one that it does not print.
    fn live(&self) -> Option<Line<'static>> {
        if self.is_meta {
            return None;
        }
        Some(Line {
            kind: Cow::Owned(self.kind.clone()),
            subtype: Cow::Owned(self.subtype.clone()),
            uuid: Cow::Owned(self.uuid.clone()),
            message: self.message.clone(),
            tool_use_result: self.tool_use_result.clone(),
            is_synthetic: self.is_compact_summary,
            error: self.error.clone(),
            request_id: self.request_id.clone(),
            ..Line::default()
        })
    }

    /// The result of a turn whose last line this is; `None` if the turn cannot be over.
    fn result(&self) -> Option<Line<'static>> {
        let result = |terminal: &str| Line {
            kind: Cow::Borrowed("result"),
            subtype: Cow::Borrowed("success"),
            terminal_reason: Some(terminal.to_owned()),
            stop_reason: self.message.as_ref().and_then(|message| message.stop_reason.clone()),
            is_error: self.is_api_error_message,
            api_error_status: self.api_error_status,
            ..Line::default()
        };
        if self.is_interrupt() {
            return Some(result("aborted_streaming"));
        }
        let stop_reason =
            self.message.as_ref().filter(|_| self.kind == "assistant")?.stop_reason.as_deref()?;
        (!matches!(stop_reason, "tool_use" | "pause_turn")).then(|| result("completed"))
    }
}
