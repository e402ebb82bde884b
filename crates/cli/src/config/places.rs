//! Where this platform keeps a user's files.

use std::env;
use std::path::PathBuf;

/// Where data is kept unless somebody says where.
pub(super) fn data() -> Option<PathBuf> {
    if cfg!(target_os = "macos") { application_support() } else { xdg("XDG_DATA_HOME", ".local/share") }
}

/// Where the configuration is looked for unless somebody says where. Never the working directory: a project that was just
/// cloned must not decide which programs are started.
pub(super) fn configuration() -> Option<PathBuf> {
    let directory =
        if cfg!(target_os = "macos") { application_support() } else { xdg("XDG_CONFIG_HOME", ".config") };
    directory.map(|directory| directory.join("turnstream.toml"))
}

fn xdg(variable: &str, below_home: &str) -> Option<PathBuf> {
    // The specification says to pass over relative ones.
    let named = env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| Some(env::home_dir()?.join(below_home))).map(|path| path.join("turnstream"))
}

fn application_support() -> Option<PathBuf> {
    Some(env::home_dir()?.join("Library/Application Support/turnstream"))
}
