//! Programs from Debian packages, installed if they are missing.

use crate::cargo::{answer, command, run};
use std::sync::{Mutex, PoisonError};

/// apt-get refuses to run twice at once.
static APT: Mutex<()> = Mutex::new(());

/// Packages that could not be installed.
#[derive(Debug)]
pub(crate) struct Missing {
    packages: String,
    what_for: String,
    why: String,
}

impl Missing {
    pub(crate) fn new(packages: &str, what_for: &str, why: &str) -> Self {
        Self { packages: packages.to_owned(), what_for: what_for.to_owned(), why: why.to_owned() }
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { packages, what_for, why } = self;
        write!(
            out,
            "{what_for} need {packages}, which could not be installed: {why}\n\
             install that and run this again; on Debian: sudo apt-get install {packages}"
        )
    }
}

/// Installs a program by its packages if it is missing. `what_for` is part of the error.
pub(crate) fn ensure(program: &str, packages: &[&str], what_for: &str) -> Result<(), Missing> {
    // tmux knows only the short form.
    if ["--version", "-V"].iter().any(|flag| answer(command(program, &[flag])).is_some()) {
        return Ok(());
    }
    let names = packages.join(" ");
    let _turn = APT.lock().unwrap_or_else(PoisonError::into_inner);
    println!("installing {names} from Debian's packages for {what_for}");
    let root = answer(command("id", &["-u"])).is_some_and(|id| id.trim() == "0");
    let update = run(apt_get(root, &["update", "--quiet"]));
    let install = [&["install", "--quiet", "--yes", "--no-install-recommends"], packages].concat();
    update.and_then(|()| run(apt_get(root, &install))).map_err(|why| Missing::new(&names, what_for, &why))
}

/// Users other than root use sudo, which must not ask for a password.
fn apt_get(root: bool, words: &[&str]) -> std::process::Command {
    let mut install = if root { command("apt-get", &[]) } else { command("sudo", &["-n", "apt-get"]) };
    install.args(words);
    install
}

#[cfg(test)]
mod tests {
    use super::apt_get;

    #[test]
    fn only_root_installs_packages_without_sudo() {
        let words = |root| {
            let command = apt_get(root, &["update"]);
            let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
            [vec![command.get_program().to_string_lossy().into_owned()], args.collect()].concat()
        };
        assert_eq!(words(true), ["apt-get", "update"]);
        assert_eq!(words(false), ["sudo", "-n", "apt-get", "update"]);
    }
}
