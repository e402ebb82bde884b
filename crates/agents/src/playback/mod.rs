//! Plays captures of real agents through the pure part of their adapter and the turn machine.

mod capture;
mod desk;
mod fault;
mod golden;

pub(crate) use capture::{Capture, Played};
pub(crate) use desk::{Decoder, Desk, End, decoder};
pub(crate) use fault::{Fault, is_close, is_same, play_all};
pub(crate) use golden::assert_logs;

use std::path::{Path, PathBuf};

/// The folder of an agent's captures.
pub(crate) fn fixtures(agent: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(agent)
}

/// The names of all captures of an agent.
pub(crate) fn names(agent: &str) -> Vec<String> {
    let folder = std::fs::read_dir(fixtures(agent)).unwrap();
    let names = folder.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".ndjson").map(str::to_owned)).collect();
    names.sort();
    names
}
