//! The data directory belongs to the user of the gateway, and nobody else can enter it.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What others may do in a directory, in its mode: group and everyone.
const OTHERS: u32 = 0o077;

/// Why a directory cannot hold the data of a gateway.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataDirectoryError {
    #[error("cannot create the data directory {}: {error}; name another one with --data DIR", path.display())]
    Unusable { path: PathBuf, error: io::Error },
    #[error(
        "other users can enter the data directory {}: its mode is {mode:03o}. Run: chmod 700 {}",
        path.display(), quoted(path)
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error(
        "the data directory {} belongs to the user with id {owner}, and this is the user with id {user}; run it as \
         that user, or name another directory with --data DIR", path.display()
    )]
    Foreign { path: PathBuf, owner: u32, user: u32 },
}

/// Creates the directory if it is missing, and refuses one that others own or can enter.
pub(crate) fn prepare(path: &Path) -> Result<(), DataDirectoryError> {
    let unusable = |error| DataDirectoryError::Unusable { path: path.to_owned(), error };
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
    let found = File::open(path).and_then(|directory| directory.metadata()).map_err(unusable)?;
    let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return Err(DataDirectoryError::Foreign { path: path.to_owned(), owner, user });
    }
    let mode = found.mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(DataDirectoryError::Exposed { path: path.to_owned(), mode });
    }
    Ok(())
}

/// The path as an argument of a shell.
fn quoted(path: &Path) -> String {
    crate::shell::quoted_path(path)
}

#[cfg(test)]
mod tests {
    use super::prepare;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_that_others_can_enter_is_refused_with_the_command_that_fixes_it() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("my data");
        prepare(&data).unwrap();
        assert_eq!(data.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        for mode in [0o755, 0o750, 0o701, 0o770] {
            std::fs::set_permissions(&data, Permissions::from_mode(mode)).unwrap();
            let refused = prepare(&data).unwrap_err().to_string();
            let fix = format!("its mode is {mode:03o}. Run: chmod 700 '{}'", data.display());
            assert!(refused.ends_with(&fix), "{refused}");
        }
    }

    /// Only root can give a directory away.
    #[test]
    fn a_directory_of_another_user_is_refused() {
        let home = tempfile::tempdir().unwrap();
        if std::os::unix::fs::chown(home.path(), Some(65_534), None).is_err() {
            return;
        }
        let refused = prepare(home.path()).unwrap_err().to_string();
        assert!(refused.contains("belongs to the user with id 65534"), "{refused}");
    }
}
