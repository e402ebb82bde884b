//! The fault disk with SQLite: WAL, one writer.

use super::{after, child, directory, disk, files, run_to_done};
use rusqlite::Connection;
use std::path::Path;
use turnstream_failpoint::reach;
use turnstream_testkit::crash::{KillPoint, Rounds, role};
use turnstream_testkit::disk::{Faults, PowerCut, Window};

const CHILD: &str = "sqlite::committing_child";
const SYNCHRONOUS: &str = "TESTKIT_SYNCHRONOUS";

fn open(directory: &Path, synchronous: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open(directory.join("store.db"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    // Small, so that checkpoints fall between the kills too.
    connection.pragma_update(None, "wal_autocheckpoint", 20)?;
    connection
        .execute("CREATE TABLE IF NOT EXISTS event (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)", [])?;
    Ok(connection)
}

fn append(connection: &Connection) -> rusqlite::Result<i64> {
    connection.execute("INSERT INTO event (body) VALUES (randomblob(300))", [])?;
    Ok(connection.last_insert_rowid())
}

#[test]
fn committing_child() {
    let Some(role) = role() else { return };
    let synchronous = std::env::var(SYNCHRONOUS).unwrap_or_else(|_| "FULL".to_owned());
    let connection = open(&directory(), &synchronous).unwrap();
    match role.as_str() {
        "commit" => {
            for _ in 0..2000 {
                println!("COMMITTED {}", append(&connection).unwrap());
            }
        }
        "commit thrice" => {
            for _ in 0..3 {
                append(&connection).unwrap();
            }
        }
        "commit on a sick disk" => {
            let mut sick = false;
            for _ in 0..2000 {
                match append(&connection) {
                    Ok(seq) => {
                        println!("COMMITTED {seq}");
                        if std::mem::take(&mut sick) {
                            println!("HEALED");
                        }
                    }
                    Err(error) => {
                        sick = true;
                        println!("FAILED {:?}", error.sqlite_error_code());
                        std::thread::sleep(std::time::Duration::from_millis(2));
                    }
                }
            }
        }
        _ => return,
    }
    reach("done");
}

/// Opens the database after a power cut. Checks that it is intact and has every row up to `acknowledged`.
fn verify(directory: &Path, acknowledged: i64) -> Result<(), String> {
    let check = || -> rusqlite::Result<(String, i64, i64)> {
        let connection = open(directory, "FULL")?;
        let integrity = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let (rows, last) =
            connection.query_row("SELECT count(*), ifnull(max(seq), 0) FROM event", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        Ok((integrity, rows, last))
    };
    match check().map_err(|error| error.to_string())? {
        (integrity, _, _) if integrity != "ok" => Err(integrity),
        (_, rows, last) if rows != last => Err(format!("{rows} rows, but the last is {last}")),
        (_, _, last) if last < acknowledged => {
            Err(format!("{acknowledged} was acknowledged, {last} is left"))
        }
        _ => Ok(()),
    }
}

/// Every second end is only a kill, after which the next child continues with the page cache.
#[test]
fn with_synchronous_full_no_acknowledged_commit_is_lost_over_fifty_power_cuts() {
    let (_directory, mut disk) = disk();
    let full = std::env::var_os("TURNSTREAM_FULL").is_some();
    let (mut acknowledged, mut cuts, mut forgotten) = (0, 0, 0);
    Rounds::seeded(21, if full { 400 } else { 100 })
        .run(
            &mut disk,
            |disk, round| {
                let program = child(disk, CHILD, "commit");
                Ok((program, KillPoint::line("COMMITTED", round.rng.u64(1..40))))
            },
            |disk, round, seen| {
                acknowledged = seen.lines("COMMITTED ").last().unwrap().parse().unwrap();
                let seed = round.rng.u64(..);
                let cut = match round.number % 8 {
                    0 => PowerCut::Nothing,
                    2 => PowerCut::Subset(seed),
                    4 => PowerCut::Torn(seed),
                    6 => PowerCut::Everything,
                    _ => return Ok(()),
                };
                cuts += 1;
                let report = disk.power_cut(cut).map_err(|error| error.to_string())?;
                forgotten += report.forgotten;
                verify(disk.directory(), acknowledged).map_err(|error| format!("{cut:?}: {error}"))?;
                disk.settle().map_err(|error| error.to_string())
            },
        )
        .unwrap();
    assert!(cuts >= 50);
    assert!(forgotten > 0, "no cut ever had anything to forget");
}

#[test]
fn with_synchronous_off_acknowledged_commits_are_lost() {
    let mut lost = 0;
    for nth in [5, 20, 60] {
        let (_directory, disk) = disk();
        drop(open(disk.directory(), "FULL").unwrap());
        let mut disk = turnstream_testkit::disk::FaultDisk::new(disk.directory()).unwrap();
        let mut program = child(&disk, CHILD, "commit").env(SYNCHRONOUS, "OFF");
        let seen = program.run(&KillPoint::line("COMMITTED", nth)).unwrap();
        disk.power_cut(PowerCut::Nothing).unwrap();
        let acknowledged = seen.lines("COMMITTED ").last().unwrap().parse().unwrap();
        lost += usize::from(verify(disk.directory(), acknowledged).is_err());
    }
    assert_eq!(lost, 3, "the disk cannot tell a store that syncs from one that does not");
}

#[test]
fn every_call_of_bundled_sqlite_is_seen_so_that_everything_equals_the_real_directory() {
    let (_directory, disk) = disk();
    run_to_done(&disk, CHILD, "commit thrice");
    let mut real = files(disk.directory());
    assert!(real.remove("store.db-shm").is_some(), "the index in shared memory is left out");
    assert_eq!(after(&disk, PowerCut::Everything).0, real);
    assert!(disk.counters().unwrap().syncs > 3);
}

#[test]
fn a_full_and_a_failing_disk_surface_as_errors_of_sqlite_and_heal() {
    let sync_fails = Faults { sync_error: Window::Always, ..Faults::none() };
    let cases = [
        (Faults::full(), "FAILED Some(DiskFull)"),
        (Faults::broken(), "FAILED Some(SystemIoFailure)"),
        (sync_fails, "FAILED Some(SystemIoFailure)"),
    ];
    for (fault, failure) in cases {
        let (_directory, mut disk) = disk();
        let mut running = child(&disk, CHILD, "commit on a sick disk").start(&KillPoint::Exit).unwrap();
        running.wait_for(&KillPoint::line("COMMITTED", 5)).unwrap();
        disk.set(fault).unwrap();
        running.wait_for(&KillPoint::line(failure, 3)).unwrap();
        disk.set(Faults::none()).unwrap();
        let seen = running.finish(&KillPoint::line("HEALED", 1)).unwrap();
        disk.power_cut(PowerCut::Nothing).unwrap();
        let acknowledged = seen.lines("COMMITTED ").last().unwrap().parse().unwrap();
        verify(disk.directory(), acknowledged).unwrap();
    }
}
