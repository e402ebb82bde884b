//! Programs from npm, at pinned versions, installed into a folder below `target/`.

use crate::cargo::{command, run, target};
use crate::debian;
use std::path::{Path, PathBuf};

/// A folder of npm packages.
#[derive(Debug)]
pub(crate) struct Folder {
    /// The folder, below `target/`.
    pub(crate) name: &'static str,
    /// What they are for. Part of the error if npm is missing.
    pub(crate) what_for: &'static str,
    pub(crate) packages: &'static [Package],
}

/// One program.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// Its command, which supports `--version`. A library has none.
    pub(crate) command: Option<&'static str>,
}

// === impl Folder ===

impl Folder {
    /// Installs them unless they are installed and work, and returns the folder.
    pub(crate) fn install(&self) -> Result<PathBuf, String> {
        let dir = target().join(self.name);
        let wanted: String = self.packages.iter().map(Package::pinned).collect();
        let stamp = dir.join("installed.txt");
        if std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
            match self.check(&dir) {
                Ok(()) => return Ok(dir),
                Err(why) => println!("installing again, since what is there does not run: {why}"),
            }
        }
        debian::ensure("npm", &["nodejs", "npm"], self.what_for).map_err(|missing| missing.to_string())?;
        println!("installing into target/{}: {}", self.name, wanted.trim().replace('\n', ", "));
        // npm does not notice that files of a package are damaged.
        match std::fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("cannot remove {}: {error}", dir.display()));
            }
            Ok(()) | Err(_) => {}
        }
        std::fs::create_dir_all(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        let mut install = command("npm", &["install", "--no-audit", "--no-fund", "--no-save", "--prefix"]);
        install.arg(&dir).args(wanted.lines());
        run(install)?;
        self.check(&dir)?;
        std::fs::write(&stamp, wanted)
            .map_err(|error| format!("cannot write {}: {error}", stamp.display()))?;
        Ok(dir)
    }

    fn check(&self, dir: &Path) -> Result<(), String> {
        let modules = dir.join("node_modules");
        self.packages.iter().try_for_each(|package| match package.command {
            Some(command) => package.check(&modules.join(".bin").join(command)),
            None => package.check_library(&modules.join(package.name)),
        })
    }
}

// === impl Package ===

impl Package {
    fn pinned(&self) -> String {
        format!("{}@{}\n", self.name, self.version)
    }

    /// Checks that the library is there at the pinned version.
    fn check_library(&self, dir: &Path) -> Result<(), String> {
        let Self { name, version, .. } = self;
        let file = dir.join("package.json");
        let text = std::fs::read_to_string(&file);
        let text = text.map_err(|error| format!("{name}: cannot read {}: {error}", file.display()))?;
        if text.contains(&format!("\"version\": \"{version}\"")) {
            return Ok(());
        }
        Err(format!("{name}: {} is not of version {version}", file.display()))
    }

    /// Checks that the command runs and has the pinned version. Some packages fetch their binary in an
    /// install script; an npm that runs no scripts leaves a stub there and still succeeds.
    fn check(&self, path: &Path) -> Result<(), String> {
        let Self { name, version, .. } = self;
        let answer = std::process::Command::new(path).arg("--version").output();
        let answer = answer.map_err(|error| format!("{name}: cannot run {}: {error}", path.display()))?;
        let said = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        if said.contains(version) {
            return Ok(());
        }
        Err(format!(
            "{name}: {} --version says {said:?} instead of {version}; does npm run install scripts?",
            path.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::Package;
    use std::path::Path;

    #[test]
    fn a_program_that_is_gone_or_another_version_is_not_taken_for_installed() {
        let package = |version| Package { name: "agent", version, command: Some("agent") };
        assert!(package("1.2.3").check(Path::new("/nowhere/agent")).is_err());
        // `echo` prints the word `--version`.
        assert!(package("1.2.3").check(Path::new("/bin/echo")).is_err());
        assert!(package("version").check(Path::new("/bin/echo")).is_ok());
    }
}
