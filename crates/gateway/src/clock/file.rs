//! `clock` in the data directory: the time that retention believed last.

use super::{Anchor, BootClock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;
use turnstream_model::time::Time;

const NAME: &str = "clock";

#[derive(Serialize, Deserialize)]
struct StoredAnchor {
    time: Time,
    boot: String,
    since_boot_ms: u64,
}

/// The stored anchor. `None` if there is none, or if it cannot be read: then ages are counted anew.
pub(crate) fn load(data: &Path) -> Option<Anchor> {
    let text = match fs::read(data.join(NAME)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(%error, "the time of the last run cannot be read");
            return None;
        }
    };
    match serde_json::from_slice(&text) {
        Ok(StoredAnchor { time, boot, since_boot_ms }) => {
            let boot = BootClock { id: boot, since: Duration::from_millis(since_boot_ms) };
            Some(Anchor { time, boot })
        }
        Err(error) => {
            tracing::warn!(%error, "the time of the last run cannot be read");
            None
        }
    }
}

/// Replaces the stored anchor. Durable when this returns.
pub(crate) fn store(data: &Path, anchor: &Anchor) -> io::Result<()> {
    let (path, fresh) = (data.join(NAME), data.join("clock.new"));
    let since_boot_ms = u64::try_from(anchor.boot.since.as_millis()).unwrap_or(u64::MAX);
    let stored = StoredAnchor { time: anchor.time, boot: anchor.boot.id.clone(), since_boot_ms };
    let mut file = File::create(&fresh)?;
    file.write_all(serde_json::to_string(&stored)?.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, &path)?;
    File::open(data)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::{Anchor, BootClock, Time, load, store};
    use std::time::Duration;

    #[test]
    fn an_anchor_is_read_as_it_was_stored() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(load(data.path()), None);
        let boot = BootClock { id: "a".to_owned(), since: Duration::from_millis(7) };
        let anchor = Anchor { time: Time(5), boot };
        store(data.path(), &anchor).unwrap();
        assert_eq!(load(data.path()), Some(anchor));
        std::fs::write(data.path().join("clock"), "{").unwrap();
        assert_eq!(load(data.path()), None);
    }
}
