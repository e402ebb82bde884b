//! Backups: whatever is restored, no client ever gets another event under a seq it has seen.

use crate::crash::{child, delivered};
use crate::support::*;
use std::path::{Path, PathBuf};
use turnstream_log::{Follow, Opened, Restored};
use turnstream_model::cursor::{Cursor, CursorOutcome, Generation, Seq};
use turnstream_testkit::crash::KillPoint;

/// A session with one event more than [`talking`], and its generation.
async fn one_run(directory: &Path) -> Generation {
    let log = open(directory).log;
    let mut appender = talking(&log, "s").await;
    append(&mut appender, vec![delta("t1", "i1", "kept")]).await;
    let generation = appender.generation().clone();
    drop(appender);
    log.close().await;
    generation
}

/// Another run, with one more event.
async fn another_run(directory: &Path) -> Option<Restored> {
    let Opened { log, restored, .. } = open(directory);
    let mut appender = log.claim(&id("s")).await.unwrap();
    append(&mut appender, vec![delta("t1", "i1", "more")]).await;
    drop(appender);
    log.close().await;
    restored
}

fn database(directory: &Path) -> PathBuf {
    directory.join("log.db")
}

/// Restores a backup as SQLite requires: without the files beside the replaced one.
fn put_back(backup: &Path, directory: &Path) {
    for beside in ["log.db-wal", "log.db-shm"] {
        let _ = std::fs::remove_file(directory.join(beside));
    }
    std::fs::copy(backup, database(directory)).unwrap();
}

/// An online backup, as `sqlite3 log.db '.backup FILE'` makes it.
fn back_up(directory: &Path, into: &Path) {
    let source = rusqlite::Connection::open(database(directory)).unwrap();
    source.execute("VACUUM INTO ?1", [into.to_str().unwrap()]).unwrap();
}

/// Opens the directory, and asserts that it is recognised as restored and that no old cursor is valid.
async fn assert_restored(directory: &Path, old: &Generation, head: u64, how: Restored) {
    let Opened { log, restored, .. } = open(directory);
    assert_eq!(restored, Some(how));
    let (generation, found) = log.head(&id("s")).unwrap();
    assert_eq!(found, Seq(head));
    assert_ne!(&generation, old, "clients have seen other events under numbers that come now");
    let cursor = Cursor { generation: Some(old.clone()), seq: found };
    let mut follower = log.follow(&id("s"), &cursor).unwrap();
    let outcome = follower.next().await.unwrap();
    assert!(matches!(outcome, Follow::Outcome(CursorOutcome::Reset { .. })), "{outcome:?}");
    drop(follower);
    // It continues like any other, and the directory knows it from now on.
    let mut appender = log.claim(&id("s")).await.unwrap();
    assert_eq!(append(&mut appender, vec![delta("t1", "i1", "after")]).await, head + 1);
    drop(appender);
    log.close().await;
    let Opened { log, restored, .. } = open(directory);
    assert_eq!(restored, None);
    assert_eq!(log.head(&id("s")).unwrap(), (generation, Seq(head + 1)));
    log.close().await;
}

#[tokio::test]
async fn a_restored_backup_gets_a_new_generation_and_an_ordinary_restart_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let first = one_run(directory.path()).await;
    let backup = directory.path().join("backup");
    std::fs::copy(database(directory.path()), &backup).unwrap();
    assert_eq!(another_run(directory.path()).await, None);
    put_back(&backup, directory.path());
    assert_restored(directory.path(), &first, 4, Restored::Older).await;
}

#[tokio::test]
async fn a_backup_taken_and_put_back_within_one_run_is_recognised() {
    let directory = tempfile::tempdir().unwrap();
    let backup = directory.path().join("backup");
    let log = open(directory.path()).log;
    let mut appender = talking(&log, "s").await;
    let first = appender.generation().clone();
    append(&mut appender, vec![turn_ended("t1")]).await;
    eventually(|| log_rows(directory.path()) == 4);
    back_up(directory.path(), &backup);
    append(&mut appender, vec![turn_started("t2")]).await;
    append(&mut appender, vec![turn_ended("t2")]).await;
    drop(appender);
    log.close().await;
    put_back(&backup, directory.path());
    assert_restored(directory.path(), &first, 4, Restored::Older).await;
}

/// Events in the database.
fn log_rows(directory: &Path) -> i64 {
    let connection = rusqlite::Connection::open(database(directory)).unwrap();
    connection.query_row("SELECT coalesce(sum(count), 0) FROM chunk", [], |row| row.get(0)).unwrap()
}

fn eventually(mut is_so: impl FnMut() -> bool) {
    for _ in 0..30_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it never was");
}

#[tokio::test]
async fn a_backup_put_back_after_a_kill_in_the_same_run_is_recognised() {
    let home = tempfile::tempdir().unwrap();
    let (directory, backup) = (home.path().join("data"), home.path().join("backup"));
    let mut running = child(&directory).start(&KillPoint::Exit).unwrap();
    running.wait_for(&KillPoint::line("FRAME ", 300)).unwrap();
    eventually(|| log_rows(&directory) > 0);
    back_up(&directory, &backup);
    // Far more than the segments hold: everything after the backup has left them.
    running.wait_for(&KillPoint::line("FRAME ", 20_000)).unwrap();
    let seen = running.kill().unwrap();
    assert!(delivered(&seen).len() >= 20_000);
    let generation = |path: &Path| -> String {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.query_row("SELECT generation FROM session", [], |row| row.get(0)).unwrap()
    };
    let old = Generation::new(generation(&backup)).unwrap();
    put_back(&backup, &directory);
    let head = log_rows(&directory) as u64;
    assert_restored(&directory, &old, head, Restored::Older).await;
}

/// A directory in which only the database file was restored, after a kill at a moment when the write-ahead
/// log holds later commits. Sometimes that log has just restarted and holds nothing that could be mixed up;
/// then this tries again.
fn put_back_beside_a_later_log() -> (tempfile::TempDir, u32) {
    let mut tries = 0;
    loop {
        let home = tempfile::tempdir().unwrap();
        let (directory, backup) = (home.path().join("data"), home.path().join("backup"));
        let mut running = child(&directory).start(&KillPoint::Exit).unwrap();
        running.wait_for(&KillPoint::line("FRAME ", 300)).unwrap();
        eventually(|| log_rows(&directory) > 0);
        back_up(&directory, &backup);
        running.wait_for(&KillPoint::line("FRAME ", 60_000)).unwrap();
        drop(running.kill().unwrap());
        assert!(directory.join("log.db-wal").exists());
        // Only the file: what SQLite keeps beside it stays.
        std::fs::copy(&backup, database(&directory)).unwrap();
        let looked_at = home.path().join("looked_at");
        copy_all(&directory, &looked_at);
        let of = |path: &Path| {
            let connection = rusqlite::Connection::open(path)?;
            let revision = "SELECT value FROM meta WHERE name = 'revision'";
            connection.query_row(revision, [], |row| row.get::<_, String>(0))
        };
        // Two mixed histories may not even be readable.
        if of(&database(&looked_at)).ok() != of(&backup).ok() || tries == 10 {
            return (home, tries);
        }
        tries += 1;
    }
}

#[tokio::test]
async fn a_database_put_back_beside_sqlites_own_log_of_later_is_not_mixed_with_it() {
    let (home, tries) = put_back_beside_a_later_log();
    assert!(tries < 10, "the log of SQLite was empty at every kill");
    let (directory, backup) = (home.path().join("data"), home.path().join("backup"));
    // A kill while the foreign log is moved aside changes nothing.
    drop(child(&directory).run(&KillPoint::failpoint("log.wal.aside", 1)).unwrap());
    let opened = open(&directory);
    assert_eq!(opened.restored, Some(Restored::Older));
    opened.log.close().await;
    let connection = rusqlite::Connection::open(database(&directory)).unwrap();
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let backed_up = rusqlite::Connection::open(&backup).unwrap();
    let events = "SELECT sum(count) FROM chunk";
    let count = |connection: &rusqlite::Connection| -> i64 {
        connection.query_row(events, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count(&connection), count(&backed_up));
}

#[tokio::test]
async fn a_backup_that_the_segments_still_complete_loses_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (directory, backup) = (home.path().join("data"), home.path().join("backup"));
    // Killed before anything of the turn was flushed: all of it is in segments.
    let seen = child(&directory).run(&KillPoint::failpoint("log.settle", 1)).unwrap();
    back_up(&directory, &backup);
    put_back(&backup, &directory);
    let opened = open(&directory);
    assert_eq!(opened.restored, None, "it is as far as it ever was, and the same file");
    let kept = opened.log.read(&id("s"), Seq(0), usize::MAX).unwrap();
    for (seq, line) in delivered(&seen) {
        assert_eq!(lines(&kept[seq as usize - 1..seq as usize]), [line]);
    }
}

fn copy_all(from: &Path, into: &Path) {
    std::fs::create_dir_all(into).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, into.join(path.file_name().unwrap())).unwrap();
    }
}

#[tokio::test]
async fn a_restored_directory_is_recognised_by_its_new_files() {
    let home = tempfile::tempdir().unwrap();
    let (directory, backup) = (home.path().join("data"), home.path().join("backup"));
    let first = one_run(&directory).await;
    copy_all(&directory, &backup);
    another_run(&directory).await;
    std::fs::remove_dir_all(&directory).unwrap();
    copy_all(&backup, &directory);
    assert_restored(&directory, &first, 4, Restored::Copied).await;
}

#[tokio::test]
async fn a_directory_whose_every_byte_is_put_back_in_place_needs_its_note_removed() {
    let home = tempfile::tempdir().unwrap();
    let (directory, backup) = (home.path().join("data"), home.path().join("backup"));
    let first = one_run(&directory).await;
    copy_all(&directory, &backup);
    another_run(&directory).await;
    // Into the same files, like a snapshot of the volume: nothing shows that time has passed.
    copy_all(&backup, &directory);
    let opened = open(&directory);
    assert_eq!(opened.restored, None, "if this is recognised now, the documentation can say so");
    opened.log.close().await;
    copy_all(&backup, &directory);
    std::fs::remove_file(directory.join("boot")).unwrap();
    assert_restored(&directory, &first, 4, Restored::Copied).await;
}
