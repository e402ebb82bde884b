//! Damaged files: acknowledged events are never dropped silently.

use crate::crash::{child, delivered, segments, serial, verify};
use crate::support::*;
use std::path::{Path, PathBuf};
use turnstream_log::{Log, OpenError};
use turnstream_model::cursor::Seq;
use turnstream_testkit::crash::KillPoint;

/// The records begin here.
const START: u64 = 4096;

/// A directory whose events are only in segments, of which there are several.
fn killed_before_anything_was_settled() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    // The flusher stops and the other threads continue, so nothing leaves the segments.
    let mut running = child(directory.path()).start(&KillPoint::failpoint("log.settle", 1)).unwrap();
    running.wait_for(&KillPoint::line("FRAME ", 3_000)).unwrap();
    assert!(delivered(&running.kill().unwrap()).len() >= 3_000);
    directory
}

/// The used segments, in order.
fn in_order(directory: &Path) -> Vec<PathBuf> {
    let mut used: Vec<PathBuf> = segments(directory).into_iter().filter(|path| serial(path) > 0).collect();
    used.sort_by_key(|path| serial(path));
    used
}

/// As if the log had been killed in its first segment, which holds many commits.
fn first_of(directory: &Path) -> PathBuf {
    let used = in_order(directory);
    for path in &used[1..] {
        std::fs::remove_file(path).unwrap();
    }
    used[0].clone()
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

/// Asserts that opening is refused because of this file, and changes nothing.
fn assert_refused(directory: &Path, file: &Path) -> u64 {
    let before: Vec<_> = segments(directory).iter().map(|path| std::fs::read(path).unwrap()).collect();
    let error = match Log::open(directory, &options()) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    };
    let text = error.to_string();
    let OpenError::Damaged { path, byte, .. } = error else { panic!("{error}") };
    assert_eq!(path, file, "{text}");
    assert!(text.contains("move the files named segment-* and the file named boot"), "{text}");
    let after: Vec<_> = segments(directory).iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert_eq!(before, after, "nothing is touched");
    byte
}

#[tokio::test]
async fn damage_in_the_middle_of_a_segment_is_no_torn_end() {
    let directory = killed_before_anything_was_settled();
    let segment = first_of(directory.path());
    let used = std::fs::read(&segment).unwrap().iter().rposition(|byte| *byte != 0).unwrap();
    let middle = (START as usize + used) / 2;
    change(&segment, |bytes| bytes[middle] ^= 1);
    let byte = assert_refused(directory.path(), &segment);
    assert!((START..=middle as u64).contains(&byte), "{byte} is not at the record around {middle}");

    // The workaround that the error message gives.
    for path in segments(directory.path()).into_iter().chain([directory.path().join("boot")]) {
        std::fs::remove_file(path).unwrap();
    }
    let opened = open(directory.path());
    assert!(opened.restored.is_some(), "clients are told to reload");
    assert_eq!(opened.log.head(&id("s")).unwrap().1, Seq(0));
}

#[test]
fn a_hole_of_zeros_is_no_end() {
    let directory = killed_before_anything_was_settled();
    let segment = first_of(directory.path());
    change(&segment, |bytes| bytes[START as usize + 512..START as usize + 1024].fill(0));
    assert_refused(directory.path(), &segment);
}

#[test]
fn the_end_of_a_segment_that_another_follows_is_never_torn() {
    let directory = killed_before_anything_was_settled();
    let used = in_order(directory.path());
    let first = &used[0];
    assert!(used.len() > 2);
    change(first, |bytes| {
        let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        bytes[last - 4..].fill(0);
    });
    assert_refused(directory.path(), first);
}

#[test]
fn a_segment_that_is_gone_is_missed() {
    let directory = killed_before_anything_was_settled();
    std::fs::remove_file(&in_order(directory.path())[1]).unwrap();
    assert_refused(directory.path(), directory.path());
}

#[test]
fn a_lost_header_does_not_hide_what_is_behind_it() {
    for damage in [0..4096, 20..21] {
        let directory = killed_before_anything_was_settled();
        let segment = first_of(directory.path());
        change(&segment, |bytes| {
            bytes[damage.clone()].iter_mut().for_each(|byte| *byte = 0xff * u8::from(damage.len() == 1))
        });
        assert_refused(directory.path(), &segment);
    }
}

#[test]
fn damage_in_a_segment_that_the_database_has_whole_costs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let seen = child(directory.path()).run(&KillPoint::line("FRAME ", 20_000)).unwrap();
    let used = in_order(directory.path());
    let connection = rusqlite::Connection::open(directory.path().join("log.db")).unwrap();
    let settled: String =
        connection.query_row("SELECT value FROM meta WHERE name = 'settled'", [], |row| row.get(0)).unwrap();
    drop(connection);
    let settled: u64 = settled.parse().unwrap();
    for segment in used.iter().filter(|path| serial(path) <= settled) {
        change(segment, |bytes| bytes[START as usize..].fill(0x55));
    }
    verify(directory.path(), &delivered(&seen)).unwrap();
}

#[tokio::test]
async fn a_database_that_is_gone_is_not_made_anew_beside_the_rest_of_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    drop(talking(&log, "s").await);
    log.close().await;
    let database = directory.path().join("log.db");
    std::fs::remove_file(&database).unwrap();
    let refused = || match Log::open(directory.path(), &options()) {
        Ok(_) => panic!("it was opened"),
        Err(error) => {
            assert!(matches!(&error, OpenError::Missing(path) if *path == database), "{error}");
            assert!(error.to_string().contains("Restore it from a backup"), "{error}");
        }
    };
    refused();
    assert!(!database.exists(), "nothing is made in its place");
    std::fs::write(&database, b"").unwrap();
    refused();
    std::fs::remove_file(&database).unwrap();
    std::fs::remove_file(directory.path().join("boot")).unwrap();
    refused();
    // The workaround that the error message gives.
    for path in segments(directory.path()) {
        std::fs::remove_file(path).unwrap();
    }
    assert!(open(directory.path()).log.sessions().unwrap().is_empty());
}
