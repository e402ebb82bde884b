//! Keys of providers: read when they are needed, never shown.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A key or a secret. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

/// Where a key is. It is read for each request, so a new key needs no restart if it is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A variable of the gateway's environment.
    Variable(String),
    /// A file with the key and nothing else.
    File(PathBuf),
}

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The variable is not set.
    #[error("the variable {0} is not set or empty; set it to the key and restart the gateway")]
    NoVariable(String),
    /// The file cannot be read.
    #[error("cannot read the key in {}; correct the path or the permissions", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
    /// The key is empty, or has characters that no header may have.
    #[error("the key in {0} is empty or has blanks or control characters; correct it")]
    Unusable(String),
}

impl Key {
    /// The key itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl KeySource {
    /// Reads the key.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if there is none, or none that a header can carry.
    pub fn read(&self) -> Result<Key, KeyError> {
        let (text, place) = match self {
            Self::Variable(name) => {
                let value = std::env::var(name).ok().filter(|value| !value.is_empty());
                (value.ok_or_else(|| KeyError::NoVariable(name.clone()))?, name.clone())
            }
            Self::File(path) => {
                let read = std::fs::read_to_string(path);
                let text = read.map_err(|source| KeyError::File { path: path.clone(), source })?;
                (text, path.display().to_string())
            }
        };
        let key = text.trim();
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(KeyError::Unusable(place));
        }
        Ok(Key(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyError, KeySource};

    #[test]
    fn a_key_is_read_from_its_file_and_not_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let source = KeySource::File(path.clone());
        assert!(matches!(source.read(), Err(KeyError::File { .. })));
        std::fs::write(&path, "Kartoffel7\n").unwrap();
        let key = source.read().unwrap();
        assert_eq!(key.expose(), "Kartoffel7");
        assert!(!format!("{key:?}").contains("Kartoffel7"));
        for bad in ["", "\n", "two words", "line\nbreak", "käse"] {
            std::fs::write(&path, bad).unwrap();
            assert!(matches!(source.read(), Err(KeyError::Unusable(_))), "{bad:?}");
        }
        let missing = KeySource::Variable("NO_SUCH_VARIABLE_OF_A_KEY".to_owned()).read();
        assert!(missing.unwrap_err().to_string().contains("NO_SUCH_VARIABLE_OF_A_KEY"));
    }
}
