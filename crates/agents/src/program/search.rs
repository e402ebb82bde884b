//! Finds programs on `PATH`.

use super::known::{Adapter, KNOWN, KnownAgent};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A known agent that is installed.
#[derive(Clone, Debug)]
pub struct Found {
    /// The agent.
    pub known: &'static KnownAgent,
    /// The absolute path of its program.
    pub path: PathBuf,
}

/// The known agents in the directories of a `PATH`. Nothing is started.
pub fn discover(path: &OsStr) -> Vec<Found> {
    let found =
        |known: &&'static KnownAgent| Some(Found { known, path: on_path(Path::new(known.command), path)? });
    KNOWN.iter().filter_map(found).collect()
}

/// The known ACP agent that a command starts: the same program, by its name, with the same arguments.
pub fn known_acp(command: &Path, arguments: &[String]) -> Option<&'static KnownAgent> {
    let is_same = |known: &&&'static KnownAgent| match known.adapter {
        Adapter::Acp(needed) => {
            command.file_name() == Some(OsStr::new(known.command))
                && needed.iter().all(|word| arguments.iter().any(|given| given == word))
        }
        Adapter::Opencode | Adapter::Claude | Adapter::Codex | Adapter::NotYet => false,
    };
    KNOWN.iter().find(is_same).copied()
}

/// The program of a command: at its path, or by its name on this `PATH`.
pub(super) fn find(command: &Path, path: &OsStr) -> Option<PathBuf> {
    if command.components().count() > 1 {
        return is_program(command).then(|| command.to_owned());
    }
    on_path(command, path)
}

/// Directories with a relative path are left out: what they hold depends on the working directory, and a
/// project that was just cloned must not decide which programs are started.
fn on_path(command: &Path, path: &OsStr) -> Option<PathBuf> {
    let directories = std::env::split_paths(path).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(command)).find(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::discover;
    use std::ffi::OsString;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    fn program(directory: &Path, name: &str, mode: u32) -> PathBuf {
        std::fs::create_dir_all(directory).unwrap();
        let path = directory.join(name);
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn only_programs_in_directories_with_an_absolute_path_are_found_and_the_first_one_wins() {
        let home = tempfile::tempdir().unwrap();
        let (first, second) = (home.path().join("first"), home.path().join("second"));
        program(&first, "opencode", 0o644);
        std::fs::create_dir(first.join("codex")).unwrap();
        let claude = program(&first, "claude", 0o755);
        program(&second, "claude", 0o755);
        let opencode = program(&second, "opencode", 0o755);
        program(&second, "unknown-agent", 0o755);
        let path = std::env::join_paths([Path::new("."), Path::new(""), &first, &second]).unwrap();
        let found: Vec<_> =
            discover(&path).into_iter().map(|found| (found.known.command, found.path)).collect();
        let expected = [("opencode", opencode.clone()), ("claude", claude), ("opencode", opencode)];
        assert_eq!(found, expected, "opencode is also an ACP agent");
        assert_eq!(discover(&OsString::new()).len(), 0);
    }
}
