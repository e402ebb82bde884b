//! The directory a request is about. opencode keeps sessions, their status and their events apart by it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// An absolute path, as the server sees it, that can be sent as a query parameter. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Directory(Arc<str>);

/// Why a path cannot be the directory of a session.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DirectoryError {
    /// It would be taken relative to where the server was started.
    #[error("the directory {} is not absolute; opencode would look for it below its own", .0.display())]
    Relative(PathBuf),
    /// It cannot be put into a URL.
    #[error("the directory {} is not UTF-8; opencode takes it as text", .0.display())]
    NotUtf8(PathBuf),
}

impl Directory {
    /// Checks the path. It is not looked at: the server may be on another machine.
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

    /// The value of the query parameter, before the query is encoded. opencode 1.18.33 decodes percent signs in it a
    /// second time: `/srv/a%41b` sent plainly works in `/srv/aAb`.
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
