//! Names of files that an adapter keeps for one session.

use turnstream_model::id::SessionId;

/// The name of a session's file with this ending. Characters that are not safe in a file name are escaped.
pub fn session_file(session: &SessionId, ending: &str) -> String {
    let mut name = String::new();
    for byte in session.as_str().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            other => name.push_str(&format!("%{other:02x}")),
        }
    }
    name + ending
}
