//! `cargo xtask page`: builds the page from `web/` into the server's crate, where it is checked in.

use crate::cargo::{command, root, run, target};
use crate::debian;
use crate::test::GroupError;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files that the server has in its binary.
const BUNDLE: &str = "crates/server/src/page/bundle";

/// Installs what the page is built and tested with, as the lockfile says, unless it is there.
pub(crate) fn install() -> Result<(), GroupError> {
    debian::ensure("npm", &["nodejs", "npm"], "the page")?;
    let lock = read(&root().join("web/package-lock.json"))?;
    let stamp = root().join("web/node_modules/installed.json");
    if read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    // `npm ci` refuses a lockfile without the packages of other systems, which a registry may not have.
    run(at_web("npm", &["install", "--no-save", "--no-audit", "--no-fund"]))?;
    Ok(std::fs::write(&stamp, lock).map_err(|error| format!("cannot write {}: {error}", stamp.display()))?)
}

/// Builds the page into the server's crate.
pub(crate) fn build() -> Result<(), String> {
    install().map_err(GroupError::into_message)?;
    build_into(&root().join(BUNDLE))
}

/// Checks that the files in the server's crate are what the source builds.
pub(crate) fn check() -> Result<(), String> {
    let built = target().join("page");
    build_into(&built)?;
    let (built, kept) = (files(&built)?, files(&root().join(BUNDLE))?);
    if built == kept {
        println!("the bundle is what web/ builds: {} files", kept.len());
        return Ok(());
    }
    let differs =
        |(name, bytes): &&(PathBuf, Vec<u8>)| !kept.iter().any(|(its, of)| its == name && of == bytes);
    let names: Vec<String> =
        built.iter().filter(differs).map(|(name, _)| name.display().to_string()).collect();
    Err(format!("{BUNDLE} is not what web/ builds ({}); run `cargo xtask page`", names.join(", ")))
}

pub(crate) fn install_and_check() -> Result<(), String> {
    install().map_err(GroupError::into_message)?;
    check()
}

/// Renews the pictures of the views.
pub(crate) fn shots() -> Result<(), String> {
    install().map_err(GroupError::into_message)?;
    debian::ensure("chromium", &["chromium"], "the pictures").map_err(|missing| missing.to_string())?;
    run(command("cargo", &["build", "--package", "turnstream-cli", "--locked"]))?;
    let mut shots = at_web("node", &["tests/shots.mjs"]);
    shots.arg(root().join("docs/images")).env("TURNSTREAM_BIN", target().join("debug/turnstream"));
    run(shots)
}

fn build_into(folder: &Path) -> Result<(), String> {
    run(at_web("node_modules/.bin/tsc", &["--noEmit"]))?;
    let mut build =
        at_web("node_modules/.bin/vite", &["build", "--logLevel", "warn", "--emptyOutDir", "--outDir"]);
    build.arg(folder);
    run(build)
}

fn at_web(program: &str, args: &[&str]) -> Command {
    let mut command = command(program, args);
    command.current_dir(root().join("web"));
    command
}

/// The files of a folder with their names, sorted.
fn files(folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        files.push((entry.file_name().into(), std::fs::read(entry.path()).map_err(cannot)?));
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
