//! The directory of a request. opencode separates sessions, status and events by it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// An absolute path on the server that can be sent as a query parameter. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Directory(Arc<str>);

/// Why a path cannot be used as a directory.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DirectoryError {
    /// It is relative.
    #[error("the directory {} is not absolute; opencode would look for it below its own", .0.display())]
    Relative(PathBuf),
    /// It is not UTF-8, so it cannot be part of a URL.
    #[error("the directory {} is not UTF-8; opencode takes it as text", .0.display())]
    NotUtf8(PathBuf),
}

impl Directory {
    /// Checks the form of a path. It need not exist here: the server may be on another machine.
    pub fn new(path: impl AsRef<Path>) -> Result<Self, DirectoryError> {
        let path = path.as_ref();
        let text = path.to_str().ok_or_else(|| DirectoryError::NotUtf8(path.to_owned()))?;
        if !path.is_absolute() {
            return Err(DirectoryError::Relative(path.to_owned()));
        }
        let trimmed = text.trim_end_matches('/');
        Ok(Self(if trimmed.is_empty() { "/" } else { trimmed }.into()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path.
    pub fn as_path(&self) -> &Path {
        Path::new(&*self.0)
    }

    /// The value of the query parameter, before URL encoding. opencode 1.18.33 decodes percent signs in it
    /// twice: without this, `/srv/a%41b` would become `/srv/aAb`.
    pub(super) fn parameter(&self) -> String {
        self.0.replace('%', "%25")
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_are_directories() {
        assert_eq!(Directory::new("/srv/project/").unwrap().as_str(), "/srv/project");
        assert_eq!(Directory::new("/").unwrap().as_str(), "/");
        assert_eq!(Directory::new("work"), Err(DirectoryError::Relative("work".into())));
    }

    #[test]
    fn a_percent_sign_survives_the_servers_second_decoding() {
        assert_eq!(Directory::new("/srv/a%41b").unwrap().parameter(), "/srv/a%2541b");
    }
}
