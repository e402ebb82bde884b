//! Cargo subcommands that the checks need, at pinned versions. Missing ones are installed below `target/`.

use crate::cargo::{answer, command, run, target};

/// A cargo subcommand, and the versions that are accepted.
#[derive(Debug)]
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
    accepts: Accepts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accepts {
    /// Exactly this version: findings differ from version to version.
    Exactly,
    /// The same `major.minor`: compatible, and building it takes minutes.
    SameMinor,
}

pub(crate) const NEXTEST: Tool = Tool { name: "nextest", version: "0.9.143", accepts: Accepts::SameMinor };
pub(crate) const DENY: Tool = Tool { name: "deny", version: "0.20.2", accepts: Accepts::Exactly };
pub(crate) const FUZZ: Tool = Tool { name: "fuzz", version: "0.13.2", accepts: Accepts::Exactly };

// === impl Tool ===

impl Tool {
    /// Whether `cargo <name>` is installed in an accepted version.
    pub(crate) fn is_there(&self) -> bool {
        self.found().is_some_and(|said| self.accepts(&said))
    }

    /// Makes `cargo <name>` available.
    pub(crate) fn ensure(&self) -> Result<(), String> {
        let found = self.found();
        if found.as_ref().is_some_and(|said| self.accepts(said)) {
            return Ok(());
        }
        let (package, version) = (format!("cargo-{}", self.name), self.version);
        if let Some(found) = found {
            println!("{:?} is not the {package} that is wanted", found.trim());
        }
        println!("installing {package} {version} into target/tools (built from source, takes minutes)");
        // A build directory below target/, so that a second run reuses what the first compiled.
        let mut install = command(
            "cargo",
            &["install", &package, "--version", version, "--locked", "--quiet", "--force", "--root"],
        );
        install.arg(target().join("tools")).env("CARGO_TARGET_DIR", target().join("tools-build"));
        // To build it takes much longer than to run it.
        install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
        install.env("CARGO_PROFILE_RELEASE_LTO", "off");
        install.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        run(install)
    }

    /// The first line of its `--version`, such as `cargo-deny 0.20.2`.
    fn found(&self) -> Option<String> {
        let said = answer(command("cargo", &[self.name, "--version"]))?;
        said.lines().next().map(str::to_owned)
    }

    fn accepts(&self, said: &str) -> bool {
        let Some(version) = said.split_whitespace().nth(1) else { return false };
        let minor = |version: &str| version.split('.').take(2).map(str::to_owned).collect::<Vec<_>>();
        match self.accepts {
            Accepts::Exactly => version == self.version,
            Accepts::SameMinor => minor(version) == minor(self.version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DENY, NEXTEST};

    #[test]
    fn an_installed_version_that_is_not_the_pinned_one_does_not_do() {
        assert!(DENY.accepts("cargo-deny 0.20.2"));
        assert!(!DENY.accepts("cargo-deny 0.20.1"));
        assert!(!DENY.accepts("cargo-deny"));
        assert!(NEXTEST.accepts("cargo-nextest 0.9.143 (60fa45f63 2026-08-04)"));
        assert!(NEXTEST.accepts("cargo-nextest 0.9.98"));
        assert!(!NEXTEST.accepts("cargo-nextest 0.10.0"));
    }
}
