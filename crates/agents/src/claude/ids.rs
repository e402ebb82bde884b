//! Ids that Claude Code takes from us: UUIDs of sessions and prompts.

use sha2::{Digest, Sha256};
use turnstream_model::time::Time;

/// A UUID for the thing with these names. Later calls with the same names give other ones.
pub(super) fn new_uuid(names: &[&str], now: Time) -> String {
    let mut hash = Sha256::new();
    for name in names {
        hash.update(name.len().to_le_bytes());
        hash.update(name);
    }
    hash.update(now.0.to_le_bytes());
    hash.update(std::process::id().to_le_bytes());
    let mut bytes: [u8; 16] = std::array::from_fn({
        let digest = hash.finalize();
        move |at| digest[at]
    });
    // The version and the variant of a UUID without a meaning.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::new_uuid;
    use turnstream_model::time::Time;

    #[test]
    fn an_id_has_the_form_of_a_uuid_and_depends_on_every_name() {
        let id = new_uuid(&["ses_1", "p_1"], Time(1));
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert!(id[14..].starts_with('4') && "89ab".contains(&id[19..20]), "{id}");
        assert_eq!(id, new_uuid(&["ses_1", "p_1"], Time(1)));
        for other in [new_uuid(&["ses_1p", "_1"], Time(1)), new_uuid(&["ses_1", "p_1"], Time(2))] {
            assert_ne!(id, other);
        }
    }
}
