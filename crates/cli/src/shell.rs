//! Words for a shell, in commands that a person copies.

use std::path::{Path, PathBuf};

/// The text as one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(&byte);
    if text.bytes().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The absolute path as one word of a shell: the command may be run in another directory.
pub(crate) fn quoted_path(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    quoted(&absolute.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_path_stays_one_word_of_a_shell() {
        assert_eq!(quoted("/srv/work-1"), "/srv/work-1");
        assert_eq!(quoted("/it's $HOME"), r"'/it'\''s $HOME'");
    }
}
