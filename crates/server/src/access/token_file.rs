//! The gateway's own token, kept in a file of the data directory that only its owner can read.

use super::token::{NoRandomness, Token, TokenError};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const NAME: &str = "token";

/// Bits of a file's mode that let others read it.
const OTHERS: u32 = 0o077;

/// The file with the token. A token that another process writes there is used from the next request on.
#[derive(Clone, Debug)]
pub struct TokenFile {
    path: PathBuf,
    read: Arc<Mutex<LastRead>>,
}

/// The token as it was last read, and the file that it was read from.
#[derive(Debug)]
struct LastRead {
    token: Token,
    version: Version,
}

/// Changes with every new file: they are written beside the old one and renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    inode: u64,
    modified: (i64, i64),
}

/// Why there is no token in a data directory.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file cannot be read or written.
    #[error("the token file {} cannot be used: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Others can read the file, so the token is no secret.
    #[error(
        "the token file {} can be read by others (mode {mode:03o}); make a new token with `turnstream token --new`",
        path.display()
    )]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file does not hold a token.
    #[error("the token file {}: {source}; make a new token with `turnstream token --new`", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with the text.
        #[source]
        source: TokenError,
    },
    /// No token can be made.
    #[error(transparent)]
    Random(#[from] NoRandomness),
}

impl TokenFile {
    /// The token file of a data directory. The token is made if there is none.
    pub fn open_or_make(data: &Path) -> Result<Self, TokenFileError> {
        let path = data.join(NAME);
        if !path.exists() {
            make(&path, |fresh| match fs::hard_link(fresh, &path) {
                // Another process made one at the same time. That one counts.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                linked => linked,
            })?;
        }
        Self::open(data)
    }

    /// The token file of a data directory, which must exist.
    pub fn open(data: &Path) -> Result<Self, TokenFileError> {
        let path = data.join(NAME);
        let read = Arc::new(Mutex::new(read(&path)?));
        Ok(Self { path, read })
    }

    /// Replaces the token of a data directory. The old one opens nothing from now on.
    pub fn replace(data: &Path) -> Result<Self, TokenFileError> {
        let path = data.join(NAME);
        make(&path, |fresh| fs::rename(fresh, &path))?;
        Self::open(data)
    }

    /// The token that is in the file now.
    ///
    /// An error means that the file is gone or damaged. Then no token is right: somebody took it away.
    pub fn token(&self) -> Result<Token, TokenFileError> {
        let version =
            fs::metadata(&self.path).map(|found| Version::of(&found)).map_err(|source| self.io(source))?;
        let mut last = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if last.version != version {
            *last = read(&self.path)?;
            tracing::info!("the token was replaced; pages that had signed in must do it again");
        }
        Ok(last.token.clone())
    }

    fn io(&self, source: io::Error) -> TokenFileError {
        TokenFileError::Io { path: self.path.clone(), source }
    }
}

impl Version {
    fn of(file: &fs::Metadata) -> Self {
        Self { inode: file.ino(), modified: (file.mtime(), file.mtime_nsec()) }
    }
}

fn read(path: &Path) -> Result<LastRead, TokenFileError> {
    let io = |source| TokenFileError::Io { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(io)?;
    let found = file.metadata().map_err(io)?;
    if found.mode() & OTHERS != 0 {
        return Err(TokenFileError::Readable { path: path.to_owned(), mode: found.mode() & 0o777 });
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(io)?;
    let damaged = |source| TokenFileError::Damaged { path: path.to_owned(), source };
    let token = Token::new(text.trim_end()).map_err(damaged)?;
    Ok(LastRead { token, version: Version::of(&found) })
}

/// Writes a new token to a temporary file and has it put in place. It is on disk when this returns.
fn make(path: &Path, put: impl Fn(&Path) -> io::Result<()>) -> Result<(), TokenFileError> {
    let token = Token::random()?;
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        writeln!(file, "{}", token.expose())?;
        file.sync_all()?;
        put(&fresh)?;
        path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    };
    let written = write().map_err(|source| TokenFileError::Io { path: path.to_owned(), source });
    // It is gone already after a rename.
    if fresh.exists()
        && let Err(error) = fs::remove_file(&fresh)
    {
        tracing::debug!(%error, "the temporary token file is not removed");
    }
    written
}

#[cfg(test)]
mod tests {
    use super::{TokenFile, TokenFileError};
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn a_token_is_made_once_and_a_new_one_replaces_it_at_once() {
        let data = tempfile::tempdir().unwrap();
        let made = TokenFile::open_or_make(data.path()).unwrap();
        let first = made.token().unwrap();
        assert_eq!(fs::metadata(data.path().join("token")).unwrap().mode() & 0o777, 0o600);
        assert_eq!(TokenFile::open_or_make(data.path()).unwrap().token().unwrap(), first);
        let second = TokenFile::replace(data.path()).unwrap().token().unwrap();
        assert_ne!(first, second);
        assert_eq!(made.token().unwrap(), second, "who had it open");
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn a_token_file_that_is_gone_damaged_or_readable_is_refused() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("token");
        assert!(matches!(TokenFile::open(data.path()), Err(TokenFileError::Io { .. })));
        let open = TokenFile::open_or_make(data.path()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = TokenFile::open(data.path()).unwrap_err().to_string();
        assert!(refused.contains("mode 640") && refused.contains("token --new"), "{refused}");
        fs::remove_file(&path).unwrap();
        assert!(matches!(open.token(), Err(TokenFileError::Io { .. })));
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(open.token(), Err(TokenFileError::Damaged { .. })));
    }
}
