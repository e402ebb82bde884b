//! Files that the adapters of agents with processes keep in their state directory: notes of sessions, and
//! records of processes.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use turnstream_agent_process::Record;

/// Reads a note. One that is not there is the default.
pub(crate) fn read_note<T: DeserializeOwned + Default>(path: &Path) -> io::Result<T> {
    match fs::read(path) {
        Ok(note) => Ok(serde_json::from_slice(&note)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(error),
    }
}

/// Replaces a note. After a crash either the old or the new one is complete.
pub(crate) fn write_note(path: &Path, note: &impl Serialize) -> io::Result<()> {
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    let fresh = path.with_extension(format!("{ending}-new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec(note)?)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Removes files. One that is not there is no error.
pub(crate) fn remove_files(files: &[&PathBuf]) -> io::Result<()> {
    for file in files {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// The files with this ending in a state directory.
pub(crate) fn files_with_ending(state: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(state).into_iter().flatten().flatten().map(|entry| entry.path());
    let has_ending =
        |path: &PathBuf| path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.ends_with(ending));
    entries.filter(has_ending).collect()
}

/// The ids of all processes of these records.
pub(crate) fn process_ids<A: Serialize + DeserializeOwned>(records: Vec<PathBuf>) -> Vec<u32> {
    let families = records.into_iter().filter_map(|path| match Record::<A>::read(&path) {
        Ok(record) => Some(record?.family()),
        Err(error) => {
            tracing::debug!(%error, "the processes of a session are not known");
            None
        }
    });
    families.flat_map(|family| family.ids()).collect()
}
