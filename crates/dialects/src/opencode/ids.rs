//! Ids in opencode's form, computed from ours: a prefix, twelve hex digits, fourteen letters or digits.
//!
//! Nothing is stored, so the ids are the same after a restart and for every client. Clients sort messages and
//! parts by id. Ids of messages begin with a time, as opencode's own do. Ids of parts begin with the number
//! of the item. Ids of sessions descend with the time of their creation.

use turnstream_model::fold::{Prompt, Session};
use turnstream_model::id::{ApprovalId, AttemptId, ItemId, QuestionId, TurnId};
use turnstream_model::stable_hash;
use turnstream_model::time::Time;

/// The mask of the twelve digits.
const DIGITS: u64 = (1 << 48) - 1;
const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The letters at the end of an id.
const END: usize = 14;
/// The letters of a session's hash. The other ones at its end are the number of a subagent's call.
const HASH: usize = 8;
/// Answers of one millisecond sort after prompts of it.
const ANSWER: u64 = 2_048;
/// Parts of items sort between the start and the end of a step.
const ITEM: u64 = 1 << 40;
const FINISH: u64 = 1 << 47;
/// The beginning of an id of a message that a client may choose.
const MESSAGE: &str = "msg_";
/// The beginning of an id of a session.
const SESSION: &str = "ses_";

/// An ascending id for this time. `n` distinguishes ids of one millisecond. The same arguments
/// always give the same id.
fn ascending(prefix: &str, time_ms: u64, n: u64, seed: &str) -> String {
    with_digits(prefix, time_ms.wrapping_mul(4_096).wrapping_add(n), seed)
}

fn with_digits(prefix: &str, digits: u64, seed: &str) -> String {
    let mut id = format!("{prefix}_{:012x}", digits & DIGITS);
    push_letters(&mut id, stable_hash(seed.as_bytes()), END);
    id
}

fn push_letters(id: &mut String, mut number: u128, count: usize) {
    for _ in 0..count {
        id.push(char::from(LETTERS[(number % LETTERS.len() as u128) as usize]));
        number /= LETTERS.len() as u128;
    }
}

/// The number of an id that was made by counting: 7 of `i7`.
fn number(id: &str) -> u64 {
    let counted = id.get(1..).and_then(|digits| digits.parse().ok());
    counted.unwrap_or_else(|| (stable_hash(id.as_bytes()) & 0xffff_ffff) as u64)
}

/// The ids of one session and of everything in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    session: String,
    created: u64,
    hash: String,
}

/// What a session id of opencode names: a session of ours, or a subagent of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// The session itself.
    Session,
    /// The subagent of this tool call.
    Subagent(ItemId),
}

impl Names {
    /// The ids of a session.
    pub fn of(session: &Session) -> Self {
        let id = session.id.as_ref().map(|id| id.as_str()).unwrap_or_default();
        Self::new(id, session.created.unwrap_or(Time(0)))
    }

    /// The ids of a session with this id that was created at this time.
    pub fn new(session: &str, created: Time) -> Self {
        let mut hash = String::with_capacity(HASH);
        push_letters(&mut hash, stable_hash(session.as_bytes()), HASH);
        Self { session: session.to_owned(), created: created.0, hash }
    }

    /// The letters that the ids of this session and of its subagents share. Others may have the same.
    pub fn letters(&self) -> &str {
        &self.hash
    }

    /// The session.
    pub fn session(&self) -> String {
        self.numbered_session(0)
    }

    /// The session of the subagent that this tool call runs.
    pub fn subagent(&self, call: &ItemId) -> String {
        self.numbered_session(number(call.as_str()))
    }

    /// Later sessions have smaller ids. A subagent's comes after its session's.
    fn numbered_session(&self, call: u64) -> String {
        let digits = !self.created.wrapping_mul(4_096).wrapping_add(call);
        let mut id = format!("{SESSION}{:012x}{}", digits & DIGITS, self.hash);
        push_letters(&mut id, u128::from(call), END - HASH);
        id
    }

    /// What this id names, if it names something of this session.
    pub fn read(&self, id: &str) -> Option<Named> {
        let letters = id.strip_prefix(SESSION)?.get(12..)?;
        let number =
            letters.strip_prefix(self.hash.as_str())?.bytes().rev().try_fold(0_u64, |sum, letter| {
                let place = LETTERS.iter().position(|known| *known == letter)?;
                sum.checked_mul(LETTERS.len() as u64)?.checked_add(place as u64)
            })?;
        if self.numbered_session(number) != id {
            return None;
        }
        Some(if number == 0 { Named::Session } else { Named::Subagent(ItemId::from(format!("i{number}"))) })
    }

    /// The user message of a prompt. A client may have chosen it, as the key of the prompt.
    pub fn prompt(&self, prompt: &Prompt) -> String {
        if let Some(key) = prompt.key.as_ref().filter(|key| is_message(key)) {
            return key.clone();
        }
        let id = prompt.prompt.as_str();
        ascending("msg", prompt.time.0, 1 + number(id) % 1_000, &format!("{}/{id}", self.session))
    }

    /// The user message that an item is.
    pub fn users_item(&self, item: &ItemId, time: Time) -> String {
        let seed = format!("{}/{item}", self.session);
        ascending("msg", time.0, 1_024 + number(item.as_str()) % 1_000, &seed)
    }

    /// The answer of one step of a turn. Step 0 is of agents that do not show their model calls. `after` is
    /// the time of the message that it follows: prompts that wait for the next turn come later.
    pub(super) fn answer(&self, turn: &TurnId, after: Time, step: u32) -> String {
        let seed = format!("{}/{turn}/{step}", self.session);
        ascending("msg", after.0, ANSWER + u64::from(step), &seed)
    }

    /// The answer that an item of background work is.
    pub fn background(&self, item: &ItemId, time: Time) -> String {
        let seed = format!("{}/{item}/background", self.session);
        ascending("msg", time.0, ANSWER + number(item.as_str()) % 1_000, &seed)
    }

    /// The task of a subagent, as the user message of its session.
    pub fn task(&self, call: &ItemId) -> String {
        with_digits("msg", 1, &format!("{}/{call}/task", self.session))
    }

    /// The answer of a subagent.
    pub fn subagent_answer(&self, call: &ItemId) -> String {
        with_digits("msg", 2, &format!("{}/{call}/answer", self.session))
    }

    /// The part that an item is.
    pub fn part(&self, item: &ItemId) -> String {
        with_digits("prt", ITEM + number(item.as_str()), &format!("{}/{item}", self.session))
    }

    /// The part of a message of the user with this index, from 0.
    pub fn part_of(&self, message: &str, index: usize) -> String {
        with_digits("prt", index as u64 + 1, &format!("{}/{message}/{index}", self.session))
    }

    /// The part that begins a model call.
    pub fn step_start(&self, attempt: &AttemptId) -> String {
        with_digits("prt", number(attempt.as_str()), &format!("{}/{attempt}/start", self.session))
    }

    /// The part that ends a model call.
    pub fn step_finish(&self, attempt: &AttemptId) -> String {
        with_digits("prt", FINISH + number(attempt.as_str()), &format!("{}/{attempt}/finish", self.session))
    }

    /// The id of a permission request.
    pub fn permission(&self, approval: &ApprovalId) -> String {
        with_digits("per", number(approval.as_str()), &format!("{}/{approval}", self.session))
    }

    /// The id of a question.
    pub fn question(&self, question: &QuestionId) -> String {
        with_digits("que", number(question.as_str()), &format!("{}/{question}", self.session))
    }
}

/// The letters of a session in an id of it, or of a subagent of it ([`Names::letters`]).
pub fn letters_of(id: &str) -> Option<&str> {
    id.strip_prefix(SESSION)?.get(12..12 + HASH)
}

/// Whether a client may use this text as the id of a message.
pub fn is_message(id: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    id.strip_prefix(MESSAGE).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_letter))
}

#[cfg(test)]
mod tests {
    use super::{Named, Names, is_message, letters_of};
    use turnstream_model::event::By;
    use turnstream_model::fold::{Prompt, PromptStage};
    use turnstream_model::id::{ApprovalId, AttemptId, ItemId, PromptId, TurnId};
    use turnstream_model::time::Time;

    const TIME: Time = Time(1_794_772_552_016);

    fn names() -> Names {
        Names::new("ses_00f1", TIME)
    }

    fn prompt(id: &str, key: Option<&str>) -> Prompt {
        Prompt {
            prompt: PromptId::from(id),
            key: key.map(str::to_owned),
            actor: None,
            content: vec![],
            state: PromptStage::Waiting,
            native_id: None,
            cancelling: None::<By>,
            turn: None,
            continues: None,
            time: TIME,
        }
    }

    #[test]
    fn ids_have_opencodes_form_and_never_change() {
        // Literal: clients keep ids over a restart, and over an upgrade.
        let (names, item) = (names(), ItemId::from("i7"));
        let ids = [
            names.session(),
            names.subagent(&item),
            names.prompt(&prompt("p1", None)),
            names.answer(&TurnId::from("t1"), TIME, 1),
            names.part(&item),
        ];
        let want = [
            "ses_e1f3836affffkojikP8t000000",
            "ses_e1f3836afff8kojikP8t700000",
            "msg_1e0c7c950002G84Lr8Nkx3yXEW",
            "msg_1e0c7c950801auFyCNyd1Q5ApJ",
            "prt_0100000000075777mA9SQGJUBu",
        ];
        assert_eq!(ids, want);
    }

    #[test]
    fn a_client_chooses_the_id_of_its_message_by_the_key_of_its_prompt() {
        let chosen = "msg_1e0c7c950001junpDUYjBLrG2b";
        assert_eq!(names().prompt(&prompt("p1", Some(chosen))), chosen);
        assert_ne!(names().prompt(&prompt("p1", Some("my key"))), "my key");
        assert!(!is_message("msg_") && !is_message("msg_a/b") && !is_message("x"));
    }

    #[test]
    fn messages_and_parts_ascend_and_sessions_descend() {
        let names = names();
        let answer = |turn: &str, time, step| names.answer(&TurnId::from(turn), Time(time), step);
        let ids = [
            names.prompt(&prompt("p1", None)),
            answer("t1", TIME.0, 0),
            answer("t1", TIME.0, 1),
            answer("t1", TIME.0, 2),
            answer("t2", TIME.0 + 1, 1),
        ];
        assert!(ids.is_sorted(), "{ids:?}");
        let attempt = AttemptId::from("a9");
        let parts = [
            names.step_start(&attempt),
            names.part(&ItemId::from("i1")),
            names.part(&ItemId::from("i10")),
            names.step_finish(&attempt),
        ];
        assert!(parts.is_sorted(), "{parts:?}");
        assert!(Names::new("ses_a", Time(TIME.0 + 1)).session() < names.session());
        assert_eq!(names.permission(&ApprovalId::from("q1")).len(), 30);
    }

    #[test]
    fn an_id_of_a_session_says_which_session_or_subagent_it_is() {
        let (names, other) = (names(), Names::new("ses_00f2", TIME));
        assert_eq!(names.read(&names.session()), Some(Named::Session));
        let call = ItemId::from("i1234567");
        assert_eq!(names.read(&names.subagent(&call)), Some(Named::Subagent(call.clone())));
        assert_eq!(letters_of(&names.session()), Some(names.letters()));
        assert_eq!(letters_of(&names.subagent(&call)), Some(names.letters()));
        for foreign in [other.session(), other.subagent(&call), "ses_".into(), "ses_é".repeat(9), "x".into()]
        {
            assert_eq!(names.read(&foreign), None, "{foreign}");
        }
    }
}
