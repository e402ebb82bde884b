//! The directories that this platform has for a user's files.

use etcetera::base_strategy::{BaseStrategy, Xdg};
use std::path::PathBuf;

/// The default data directory.
pub(super) fn data() -> Option<PathBuf> {
    Some(base(Xdg::data_dir)?.join("turnstream"))
}

/// The default configuration file. Never in the working directory: a project that was just cloned must not
/// decide which programs are started.
pub(super) fn configuration() -> Option<PathBuf> {
    Some(base(Xdg::config_dir)?.join("turnstream").join("turnstream.toml"))
}

/// On macOS both are in `~/Library/Application Support`, elsewhere as the XDG specification says.
fn base(of_xdg: impl Fn(&Xdg) -> PathBuf) -> Option<PathBuf> {
    let xdg = Xdg::new().ok()?;
    let is_macos = cfg!(target_os = "macos");
    Some(if is_macos { xdg.home_dir().join("Library/Application Support") } else { of_xdg(&xdg) })
}
