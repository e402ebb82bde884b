//! The keys of tool calls. ACP wants ids that are unique in a session. Some agents count from one in each
//! turn, or in each process, so a key also has the process and the turn.

use super::Conversation;
use turnstream_model::id::Key;

/// The most calls that are kept.
const MOST_CALLS: usize = 4_096;
/// Calls of so many turns are kept when there are more.
const TURNS: u64 = 4;

/// A tool call of this process.
pub(super) struct Called {
    key: Key,
    turn: u64,
}

/// How an agent mentions a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mention {
    /// As a call of this turn.
    Announcement,
    /// As a call that it has announced, also in an earlier turn.
    Update,
}

/// The agent's id in a key. It may have colons too (`functions.bash:0`).
pub(super) fn id_in(key: &str) -> &str {
    key.splitn(3, ':').nth(2).unwrap_or(key)
}

impl Conversation {
    /// The key of a tool call.
    pub(super) fn tool_key(&mut self, id: &str, mention: Mention) -> Key {
        let turn = self.turns;
        let known = self.tool_keys.get(id);
        if let Some(known) = known.filter(|known| mention == Mention::Update || known.turn == turn) {
            return known.key.clone();
        }
        if self.tool_keys.len() >= MOST_CALLS {
            self.tool_keys.retain(|_, called| called.turn + TURNS > turn);
        }
        let key = Key::from(format!("{}:{turn}:{id}", self.settings.epoch));
        self.tool_keys.insert(id.to_owned(), Called { key: key.clone(), turn });
        key
    }
}
