//! Tells whether an agent is logged in, by the existence of variables and files. No file is opened.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use turnstream_adapter::Login;

/// How to tell whether an agent is logged in.
#[derive(Debug)]
pub struct LoginFacts {
    /// Variables that hold credentials.
    pub variables: &'static [&'static str],
    /// Files that hold credentials.
    pub files: &'static [FileAt],
    /// Variables with which nothing can be told, for example because they choose another provider.
    pub unsure_variables: &'static [&'static str],
    /// Files with which nothing can be told: they may hold credentials among other things.
    pub unsure_files: &'static [FileAt],
    /// If nothing of this exists.
    pub otherwise: Login,
    /// The command that logs in.
    pub command: &'static str,
}

/// A file in a directory that a variable names. Without the variable it is below the user's home.
#[derive(Debug)]
pub struct FileAt {
    /// The variable; empty if there is none.
    pub variable: &'static str,
    /// The directory without the variable, relative to the home, or absolute.
    pub home: &'static str,
    /// The file in it.
    pub file: &'static str,
}

impl LoginFacts {
    /// Whether an agent with these variables is logged in.
    pub(super) fn state<'a>(&self, variable: impl Fn(&str) -> Option<&'a OsStr>) -> Login {
        let is_set = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
        let is_there = |file: &FileAt| file.path(&variable).is_some_and(|path| path.exists());
        if self.variables.iter().any(is_set) || self.files.iter().any(is_there) {
            Login::LoggedIn
        } else if self.unsure_variables.iter().any(is_set) || self.unsure_files.iter().any(is_there) {
            Login::Unknown
        } else {
            self.otherwise
        }
    }
}

impl FileAt {
    fn path<'a>(&self, variable: &impl Fn(&str) -> Option<&'a OsStr>) -> Option<PathBuf> {
        let named = variable(self.variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        let directory = match named {
            Some(named) => named,
            None if Path::new(self.home).is_absolute() => PathBuf::from(self.home),
            None => PathBuf::from(variable("HOME")?).join(self.home),
        };
        Some(directory.join(self.file))
    }
}

#[cfg(test)]
mod tests {
    use super::super::known::{CLAUDE, KnownAgent, OPENCODE};
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::path::Path;
    use turnstream_adapter::Login;

    fn state(known: &KnownAgent, home: &Path, variables: &[(&str, &str)]) -> Login {
        let mut set: BTreeMap<String, OsString> = BTreeMap::from([("HOME".to_owned(), home.into())]);
        set.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), value.into())));
        known.login.as_ref().unwrap().state(|name| set.get(name).map(OsString::as_os_str))
    }

    fn touch(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_login_of_claude_code_is_told_by_what_exists() {
        let home = tempfile::tempdir().unwrap();
        let told = |variables: &[(&str, &str)]| state(&CLAUDE, home.path(), variables);
        assert_eq!(told(&[]), Login::LoggedOut);
        assert_eq!(told(&[("ANTHROPIC_API_KEY", "")]), Login::LoggedOut);
        assert_eq!(told(&[("ANTHROPIC_API_KEY", "k")]), Login::LoggedIn);
        assert_eq!(told(&[("CLAUDE_CODE_USE_BEDROCK", "1")]), Login::Unknown);
        touch(&home.path().join(".claude.json"));
        assert_eq!(told(&[]), Login::Unknown, "it may hold a key, and is not opened");
        touch(&home.path().join(".claude/.credentials.json"));
        assert_eq!(told(&[]), Login::LoggedIn);
        let other = home.path().join("other");
        assert_eq!(told(&[("CLAUDE_CONFIG_DIR", other.to_str().unwrap())]), Login::LoggedOut);
    }

    #[test]
    fn opencode_has_models_without_a_login_so_it_is_never_logged_out() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(state(&OPENCODE, home.path(), &[]), Login::Unknown);
        touch(&home.path().join(".local/share/opencode/auth.json"));
        assert_eq!(state(&OPENCODE, home.path(), &[]), Login::LoggedIn);
    }
}
