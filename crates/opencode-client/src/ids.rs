//! Ids in opencode's ascending form. The same prompt always gets the same ids.
//!
//! An id is a prefix, twelve hex digits of `milliseconds * 4096 + n`, and fourteen letters or digits. Twelve
//! digits hold 36 bits of milliseconds. So the count wraps every 795 days, last on 2026-08-14: never sort ids
//! of two sessions, or of the times before and after a wrap.
//!
//! Older servers compare ids of one session as text: a user message counts as answered if an assistant
//! message with a greater id follows. opencode 1.18.33 uses its own time of arrival. It accepted ids that
//! were one minute old and ids that were five minutes ahead.

use turnstream_model::stable_hash;

/// The mask of the twelve digits.
const TIME: u64 = (1 << 48) - 1;
/// The characters at the end of an id.
const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The number of characters at the end of an id.
const END: usize = 14;

/// The ids of one prompt and its parts. They can be computed again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptIds {
    sent_ms: u64,
    seed: String,
}

/// The ids of a prompt. `sent_ms` must be the same whenever they are computed again. Use the time at which
/// the prompt is first sent: a prompt that waited in a queue then sorts after what was said meanwhile.
pub fn for_prompt(session: &str, prompt: &str, sent_ms: u64) -> PromptIds {
    // The length distinguishes ("a", "bc") from ("ab", "c").
    PromptIds { sent_ms, seed: format!("{}:{session}:{prompt}", session.len()) }
}

impl PromptIds {
    /// The id of the user message.
    pub fn message(&self) -> String {
        message_id(self.sent_ms, 1, &self.seed)
    }

    /// The id of its part with this index, from 0. Later parts have greater ids.
    pub fn part(&self, place: u32) -> String {
        part_id(self.sent_ms, u64::from(place) + 1, &format!("{}:{place}", self.seed))
    }
}

/// The message id for this time; `n` distinguishes ids of the same millisecond.
pub fn message_id(time_ms: u64, n: u64, seed: &str) -> String {
    ascending("msg", time_ms, n, seed)
}

/// The part id for this time; see [`message_id`].
pub fn part_id(time_ms: u64, n: u64, seed: &str) -> String {
    ascending("prt", time_ms, n, seed)
}

/// The id of the part with this index, from 0, of a message. Later parts have greater ids.
pub fn part_of(message: &str, place: u32) -> String {
    let digits = message.strip_prefix("msg_").and_then(|rest| rest.get(..12));
    let time = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0);
    part_id(time / 4096, time % 4096 + u64::from(place), &format!("{message}:{place}"))
}

fn ascending(prefix: &str, time_ms: u64, n: u64, seed: &str) -> String {
    let time = time_ms.wrapping_mul(4096).wrapping_add(n) & TIME;
    let mut hash = stable_hash(seed.as_bytes());
    let mut id = format!("{prefix}_{time:012x}");
    for _ in 0..END {
        id.push(char::from(LETTERS[(hash % LETTERS.len() as u128) as usize]));
        hash /= LETTERS.len() as u128;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_written_as_opencode_writes_it() {
        // Capture s4-session-crud: its user message, made in that millisecond, is
        // msg_1e0c7c9500014P28io7e16t38F.
        assert_eq!(&message_id(1_794_772_552_016, 1, "any")[..16], "msg_1e0c7c950001");
    }

    #[test]
    fn the_same_prompt_has_the_same_ids_and_another_one_others() {
        let ids = for_prompt("ses_1", "prm_2", 1_794_772_552_016);
        // Literal, because a change would make a repeated prompt run twice.
        assert_eq!(ids.message(), "msg_1e0c7c950001junpDUYjBLrG2b");
        assert_eq!(
            [ids.part(0), ids.part(1)],
            ["prt_1e0c7c9500013YH5Sttbg8yjLF", "prt_1e0c7c950002qMs25d26WBl49I"]
        );
        assert_eq!(for_prompt("ses_1", "prm_2", 1_794_772_552_016), ids);
        let others = [("ses_1", "prm_3"), ("ses_2", "prm_2"), ("ses_", "1prm_2")].map(|(session, prompt)| {
            let other = for_prompt(session, prompt, 1_794_772_552_016);
            assert_ne!(other.message(), ids.message());
            other.message()
        });
        assert!(others.iter().all(|id| id.len() == "msg_".len() + 26), "{others:?}");
    }

    #[test]
    fn ids_ascend_with_time_and_place_until_the_count_wraps() {
        let at = |ms| for_prompt("ses_1", "prm_1", ms).message();
        assert!(at(1_794_772_552_016) < at(1_794_772_552_017));
        let ids = for_prompt("ses_1", "prm_1", 1_794_772_552_016);
        let parts: Vec<String> = (0..5_000).map(|place| ids.part(place)).collect();
        assert!(parts.is_sorted(), "also over the end of a millisecond");
        // The last millisecond before 2026-08-14T11:19:55Z and the first after.
        let wrap = 26 * (1 << 36);
        assert_eq!(&at(wrap - 1)[..16], "msg_fffffffff001");
        assert_eq!(&at(wrap)[..16], "msg_000000000001");
    }
}
