//! Tokens of model calls in the file of a thread. Codex tells a connection only of calls that end while it is
//! there. Its file has the others, with their turns.

use super::usage::in_log;
use super::wire::Tokens;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use turnstream_model::event::Usage;

/// How much of the end of a file is read. One turn rarely has more.
const READ: u64 = 16 << 20;
/// The type of a line that has the tokens of a call. It is written when the call ends.
const RECORD: &str = "token_usage_record";

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct RecordedUsage {
    /// Turns with the tokens of a call, in order.
    calls: Vec<(String, Tokens)>,
    /// The last total of the thread.
    total: Option<Tokens>,
}

/// A line of the file, as far as it is read here.
#[derive(Deserialize)]
struct RecordedLine {
    #[serde(rename = "type")]
    kind: String,
    payload: RecordedCall,
}

/// A model call that has ended.
#[derive(Deserialize)]
struct RecordedCall {
    turn_id: String,
    usage: Tokens,
    thread_token_usage: Tokens,
}

impl RecordedUsage {
    /// Reads the end of a thread's file.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let begin = file.metadata()?.len().saturating_sub(READ);
        file.seek(SeekFrom::Start(begin))?;
        let mut text = Vec::new();
        file.take(READ).read_to_end(&mut text)?;
        Ok(Self::of(&String::from_utf8_lossy(&text)))
    }

    pub(super) fn of(text: &str) -> Self {
        let mut recorded = Self::default();
        // The first line may be cut, and other lines have other members.
        let lines = text.lines().filter(|line| line.contains(RECORD));
        let calls = lines.filter_map(|line| serde_json::from_str::<RecordedLine>(line).ok());
        for RecordedLine { payload, .. } in calls.filter(|line| line.kind == RECORD) {
            recorded.calls.push((payload.turn_id, payload.usage));
            recorded.total = Some(payload.thread_token_usage);
        }
        recorded
    }

    /// The tokens of the calls of a turn that have ended.
    pub(super) fn of_turn(&self, turn: &str) -> Option<Usage> {
        let calls = self.calls.iter().filter(|(of, _)| of == turn);
        calls.fold(None, |sum: Option<Usage>, (_, tokens)| {
            let mut sum = sum.unwrap_or_default();
            sum.add(&in_log(*tokens));
            Some(sum)
        })
    }

    /// The total of the thread after the last of them.
    pub(super) fn total(&self) -> Option<Tokens> {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::RecordedUsage;
    use std::path::Path;
    use turnstream_model::event::Usage;

    /// The lines about tokens in the file of a thread with one turn, which had two calls.
    #[test]
    fn the_calls_of_a_turn_are_in_the_file_of_its_thread() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/codex");
        let path = fixtures.join("rollout_token_lines.jsonl");
        let recorded = RecordedUsage::read(&path).unwrap();
        let turn = recorded.calls[0].0.clone();
        let tokens = |calls: u64| Usage {
            input: Some(100 * calls),
            output: Some(20 * calls),
            reasoning: Some(20 * calls),
            cache_read: Some(0),
            cache_write: Some(0),
            ..Usage::default()
        };
        assert_eq!(recorded.of_turn(&turn), Some(tokens(2)));
        assert_eq!(recorded.total().map(super::in_log), Some(tokens(2)));
        assert_eq!(recorded.of_turn("another"), None);
        // The file may be cut anywhere.
        let text = std::fs::read_to_string(path).unwrap();
        for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            RecordedUsage::of(&text[cut..]);
        }
    }
}
