//! `clock` in the data directory: the time that retention believed last.

use super::{Anchor, BootClock, millis};
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
    /// The wall clock at the same moment. Not in a file of an earlier version.
    #[serde(default)]
    wall: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    steady_ms: Option<u64>,
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
        Ok(StoredAnchor { time, boot, since_boot_ms, wall, steady_ms }) => {
            let boot = BootClock { id: boot, since: Duration::from_millis(since_boot_ms) };
            let steady = steady_ms.map(Duration::from_millis);
            Some(Anchor { time, boot, wall: wall.unwrap_or(time), steady })
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
    let stored = StoredAnchor {
        time: anchor.time,
        boot: anchor.boot.id.clone(),
        since_boot_ms: millis(anchor.boot.since),
        wall: Some(anchor.wall),
        steady_ms: anchor.steady.map(millis),
    };
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
        let anchor = Anchor { time: Time(5), boot, wall: Time(9), steady: None };
        let steady = Anchor { steady: Some(Duration::from_millis(3)), ..anchor.clone() };
        for anchor in [anchor, steady] {
            store(data.path(), &anchor).unwrap();
            assert_eq!(load(data.path()), Some(anchor));
        }
        let earlier = r#"{"time":5,"boot":"a","since_boot_ms":7}"#;
        std::fs::write(data.path().join("clock"), earlier).unwrap();
        let read = load(data.path()).expect("a file of an earlier version");
        assert_eq!((read.wall, read.steady), (read.time, None));
        std::fs::write(data.path().join("clock"), "{").unwrap();
        assert_eq!(load(data.path()), None);
    }
}
