//! Tells the history that an agent repeats when it loads a session from what is new. Some agents go on with
//! it after their answer to `session/load`, and not all give ids to their messages. So what comes after the
//! first prompt is compared with the log, until something comes that the log does not have.

use super::updates::TextKind;
use super::{Conversation, tool_keys};
use serde_json::{Map, Value};
use std::collections::HashSet;
use turnstream_adapter::{Comparison, LoggedPart};
use turnstream_json::Piece;

/// The most bytes that are withheld. More than that is a history, and no turn that is like one.
const MOST_WITHHELD: usize = 1 << 20;

/// The history of a session that goes on.
pub(super) struct History {
    /// What the log has.
    parts: Vec<LoggedPart>,
    /// The parts before this one were repeated, or left out.
    next: usize,
    /// The beginning of a text that may be one of the next parts.
    begun: Option<Begun>,
    /// The session was not prompted here yet: what comes is history, also what the log does not have.
    is_replay: bool,
    /// The session was loaded: the agent repeats it, before its answer or after it.
    is_loaded: bool,
    /// The last message that was taken for a repetition after the prompt.
    dropped: Option<Begun>,
    /// The agent was seen to repeat the log: before the prompt, or with an earlier prompt after it.
    repeats: bool,
    /// What was taken for a repetition after the prompt. It is shown if the agent repeats nothing.
    withheld: Vec<Withheld>,
    withheld_bytes: usize,
    /// The ids in the history.
    ids: HashSet<String>,
}

/// Something that was taken for a repetition.
enum Withheld {
    Text(Begun),
    Call { update: String, id: String, members: Map<String, Value> },
}

/// A text that may be a repetition, and is held back.
pub(super) struct Begun {
    pub(super) kind: TextKind,
    pub(super) message: Option<String>,
    pub(super) text: String,
}

/// How the comparison with the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// A history is whole then.
    BySomethingNew,
    /// Everything that the turn has shown is like the log.
    WithItsTurn,
}

/// Whether a piece of a text is history.
enum Verdict<'p> {
    Old,
    /// It is not. This text is new, with what was held back of it.
    New(Piece<'p>),
}

/// What the log has of a text.
enum Found {
    All,
    /// It may be the beginning of a part: this much follows the parts that it has whole.
    Beginning(String),
    /// This much follows the parts that it has whole, and is new.
    Nothing(String),
}

impl History {
    /// Of a new session, or of one that goes on and has these parts in the log.
    pub(super) fn new(goes_on: bool, parts: Vec<LoggedPart>) -> Self {
        Self {
            parts,
            next: 0,
            begun: None,
            is_replay: goes_on,
            is_loaded: false,
            dropped: None,
            repeats: false,
            withheld: Vec::new(),
            withheld_bytes: 0,
            ids: HashSet::new(),
        }
    }

    /// The session is loaded, and not only resumed.
    pub(super) fn loads(&mut self) {
        self.is_loaded = true;
    }

    /// Whether all that comes is history.
    pub(super) fn is_replay(&self) -> bool {
        self.is_replay
    }

    /// The session is prompted. More of the history may come, unless the agent repeats nothing.
    pub(super) fn prompted(&mut self) {
        self.is_replay = false;
        self.repeats |= self.next > 0;
        if self.next == 0 && !self.is_loaded {
            self.end();
        }
    }

    /// Something new has come: the history is over. Returns the text that was held back.
    pub(super) fn end(&mut self) -> Option<Begun> {
        self.parts.clear();
        self.next = 0;
        self.dropped = None;
        self.withheld.clear();
        self.begun.take()
    }

    /// Keeps what is taken for a repetition.
    fn withhold(&mut self, withheld: Withheld) {
        if self.is_replay || self.repeats {
            return;
        }
        self.withheld_bytes += match &withheld {
            Withheld::Text(begun) => begun.text.len(),
            Withheld::Call { members, .. } => members.iter().map(|(_, value)| value.to_string().len()).sum(),
        };
        self.withheld.push(withheld);
        if self.withheld_bytes > MOST_WITHHELD {
            self.is_repeated();
        }
    }

    /// The beginning of a text was found in the log.
    fn withhold_text(&mut self, kind: TextKind, message: Option<&str>, text: &str) {
        if text.is_empty() {
            return;
        }
        match kind {
            // Only a history has the prompts of other turns.
            TextKind::User => self.is_repeated(),
            TextKind::Message | TextKind::Thought => {
                let (message, text) = (message.map(str::to_owned), text.to_owned());
                self.withhold(Withheld::Text(Begun { kind, message, text }));
            }
        }
    }

    fn is_repeated(&mut self) {
        self.repeats = true;
        self.withheld.clear();
    }

    /// What was withheld, if it is no history after all.
    fn take_live(&mut self, end: Ended) -> Vec<Withheld> {
        let is_whole = match end {
            Ended::BySomethingNew => self.next == self.parts.len(),
            Ended::WithItsTurn => false,
        };
        let withheld = std::mem::take(&mut self.withheld);
        if is_whole { Vec::new() } else { withheld }
    }

    /// Whether a piece of a text is history. A text that may be history is held back.
    fn look_at<'p>(&mut self, kind: TextKind, message: Option<&str>, piece: Piece<'p>) -> Verdict<'p> {
        if self.is_replay {
            self.ids.extend(message.map(str::to_owned));
        } else if message.is_some_and(|message| self.ids.contains(message)) {
            return Verdict::Old;
        } else if self.parts.is_empty() {
            return Verdict::New(piece);
        }
        let is_other = self.begun.as_ref().is_some_and(|begun| !begun.is(kind, message));
        if piece.has_halves() || (is_other && !self.is_replay) {
            return if self.is_replay { Verdict::Old } else { Verdict::New(piece) };
        }
        let begun = self.begun.take().filter(|_| !is_other);
        let text = begun.map_or_else(String::new, |begun| begun.text) + &piece;
        let found = self.find(kind, &text);
        let rest = match &found {
            Found::All => "",
            Found::Beginning(rest) | Found::Nothing(rest) => rest,
        };
        self.withhold_text(kind, message, &text[..text.len() - rest.len()]);
        match found {
            Found::All => {
                if kind == TextKind::Message && !self.is_replay {
                    let message = message.map(str::to_owned);
                    self.dropped = Some(Begun { kind, message, text });
                }
                Verdict::Old
            }
            Found::Beginning(text) => {
                let message = message.map(str::to_owned);
                self.begun = Some(Begun { kind, message, text });
                Verdict::Old
            }
            Found::Nothing(_) if self.is_replay => Verdict::Old,
            Found::Nothing(text) => Verdict::New(Piece::whole(text)),
        }
    }

    /// Looks for a text in the next parts.
    fn find(&mut self, kind: TextKind, text: &str) -> Found {
        let mut rest = text;
        let mut at = self.next;
        while let Some(part) = self.parts.get(at) {
            at += 1;
            let LoggedPart::Text(part) = part else { continue };
            if part.kind != kind.logged() || !part.may_begin_with(rest) {
                continue;
            }
            match part.compare(rest) {
                Comparison::Shorter => return Found::Beginning(rest.to_owned()),
                Comparison::Same { rest: more } => {
                    self.next = at;
                    // Without ids, a text may be that of two messages.
                    rest = more;
                    if rest.is_empty() {
                        return Found::All;
                    }
                }
                Comparison::Other => {}
            }
        }
        Found::Nothing(rest.to_owned())
    }

    /// Whether a tool call, or an update of one, is history.
    fn has_tool(&mut self, id: &str, announces: bool) -> bool {
        // An agent may give ids anew in each process: a second announcement is another call.
        if !self.is_replay && self.ids.contains(id) && !announces {
            return true;
        }
        let is_it = |part: &LoggedPart| match part {
            LoggedPart::Tool(native_id) => tool_keys::id_in(native_id) == id,
            LoggedPart::Text(_) => false,
        };
        let found = self.parts[self.next..].iter().position(is_it);
        if let Some(offset) = found {
            self.next += offset + 1;
        }
        let is_history = self.is_replay || found.is_some();
        if is_history {
            self.ids.insert(id.to_owned());
        } else {
            self.ids.remove(id);
        }
        is_history
    }
}

impl Begun {
    fn is(&self, kind: TextKind, message: Option<&str>) -> bool {
        self.kind == kind && self.message.as_deref() == message
    }
}

impl Conversation {
    /// What is new of a piece of a text; `None` if the log has it already, or may have it.
    pub(super) fn new_text<'p>(
        &mut self,
        kind: TextKind,
        message: Option<&str>,
        piece: Piece<'p>,
    ) -> Option<Piece<'p>> {
        match self.history.look_at(kind, message, piece) {
            Verdict::Old => None,
            Verdict::New(piece) => {
                self.end_history();
                Some(piece)
            }
        }
    }

    /// Whether a tool call is history. An update of a call that is known here is none.
    pub(super) fn is_old_call(&mut self, id: &str, update: &str, members: &Map<String, Value>) -> bool {
        let announces = update == "tool_call";
        if !announces && self.tool_keys.contains_key(id) {
            return false;
        }
        let is_old = self.history.has_tool(id, announces);
        if is_old {
            let (update, id, members) = (update.to_owned(), id.to_owned(), members.clone());
            self.history.withhold(Withheld::Call { update, id, members });
        } else {
            self.end_history();
        }
        is_old
    }

    /// A turn is complete, and all that it showed was taken for a repetition. An agent may repeat nothing,
    /// and do as it did before. If it repeats, then its answer is the last message.
    pub(super) fn restore_answer(&mut self) {
        let live = self.history.take_live(Ended::WithItsTurn);
        if !live.is_empty() {
            return self.show_live(live);
        }
        let answer = self.history.dropped.take().filter(|_| self.history.begun.is_none());
        if let Some(Begun { kind, message, text }) = answer {
            self.history.end();
            self.grow_text(kind, message.as_deref(), Piece::whole(text));
        }
    }

    /// Something new has come.
    pub(super) fn end_history(&mut self) {
        if self.history.is_replay() {
            return;
        }
        let live = self.history.take_live(Ended::BySomethingNew);
        self.show_live(live);
    }

    /// The history is over. Shows what was withheld, and the text that was held back.
    fn show_live(&mut self, live: Vec<Withheld>) {
        let begun = self.history.end();
        for withheld in live {
            match withheld {
                Withheld::Text(Begun { kind, message, text }) => {
                    self.grow_text(kind, message.as_deref(), Piece::whole(text));
                }
                Withheld::Call { update, id, members } => {
                    self.history.ids.remove(&id);
                    self.tool_call(&update, members);
                }
            }
        }
        if let Some(Begun { kind, message, text }) = begun {
            self.grow_text(kind, message.as_deref(), Piece::whole(text));
        }
    }
}
