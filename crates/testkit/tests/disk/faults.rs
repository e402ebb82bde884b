//! Faults that the child sees: full, failing, short and slow, and healed again while it runs.

use super::{after, child, directory, disk, files, run_to_done};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use turnstream_failpoint::reach;
use turnstream_testkit::crash::{KillPoint, role};
use turnstream_testkit::disk::{Faults, PowerCut, Window};

const CHILD: &str = "faults::suffering_child";
/// Names a file whose appearance tells the child to go on.
const GO: &str = "TESTKIT_GO";

#[test]
fn suffering_child() {
    let Some(role) = role() else { return };
    let path = directory().join("log");
    if role == "write during a sync" {
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"before ").unwrap();
        let syncing = file.try_clone().unwrap();
        let sync = std::thread::spawn(move || syncing.sync_data().unwrap());
        let go = PathBuf::from(std::env::var(GO).unwrap());
        let until = Instant::now() + Duration::from_secs(300);
        while !go.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        file.write_all(b"during").unwrap();
        sync.join().unwrap();
        reach("done");
    }
    let mut file = File::create_new(path).unwrap();
    File::open(directory()).unwrap().sync_all().unwrap();
    match role.as_str() {
        "write" => {
            for _ in 0..4 {
                match file.write(&[7; 100]) {
                    Ok(length) => println!("WROTE {length}"),
                    Err(error) => println!("WROTE {:?}", error.kind()),
                }
            }
        }
        "write and sync" => {
            for number in 1..=3 {
                file.write_all(&[number; 100]).unwrap();
                println!("SYNC {}", file.sync_data().is_ok());
            }
        }
        "until healed" => {
            let until = Instant::now() + Duration::from_secs(300);
            let mut failed = 0;
            while Instant::now() < until {
                match file.write(&[7; 100]) {
                    Ok(_) if failed > 0 => {
                        println!("HEALED");
                        break;
                    }
                    Ok(_) => println!("FINE"),
                    Err(error) => {
                        failed += 1;
                        println!("FAILED {:?}", error.kind());
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        _ => return,
    }
    reach("done");
}

#[test]
fn a_disk_that_fills_up_writes_what_fits_and_then_says_so() {
    let (_directory, disk) = disk();
    disk.set(Faults { space: Some(250), ..Faults::none() }).unwrap();
    let seen = run_to_done(&disk, CHILD, "write");
    assert_eq!(seen.lines("WROTE "), ["100", "100", "50", "StorageFull"]);
    assert_eq!(files(disk.directory())["log"].len(), 250);
    assert_eq!(disk.counters().unwrap().full, 1);
}

#[test]
fn only_the_chosen_write_fails() {
    let (_directory, disk) = disk();
    disk.set(Faults { write_error: Window::Nth(2), ..Faults::none() }).unwrap();
    let seen = run_to_done(&disk, CHILD, "write");
    assert_eq!(seen.lines("WROTE "), ["100", "Uncategorized", "100", "100"]);
    assert_eq!(files(disk.directory())["log"].len(), 300);
    assert_eq!(disk.counters().unwrap().errors, 1);
}

#[test]
fn a_short_write_writes_half_and_says_how_much() {
    let (_directory, disk) = disk();
    disk.set(Faults { short_write: Window::Nth(3), ..Faults::none() }).unwrap();
    let seen = run_to_done(&disk, CHILD, "write");
    assert_eq!(seen.lines("WROTE "), ["100", "100", "50", "100"]);
    assert_eq!(disk.counters().unwrap().short, 1);
    assert_eq!(after(&disk, PowerCut::Everything).0, files(disk.directory()));
}

#[test]
fn what_a_failed_sync_should_have_covered_is_not_durable_by_the_next_sync() {
    let (_directory, disk) = disk();
    // The first sync is the directory's.
    disk.set(Faults { sync_error: Window::Nth(3), ..Faults::none() }).unwrap();
    let seen = run_to_done(&disk, CHILD, "write and sync");
    assert_eq!(seen.lines("SYNC "), ["true", "false", "true"]);
    let expected = [[1; 100], [0; 100], [3; 100]].concat();
    assert_eq!(after(&disk, PowerCut::Nothing).0["log"], expected);
}

#[test]
fn a_slow_sync_takes_so_much_longer() {
    let (_directory, disk) = disk();
    disk.set(Faults { sync_delay: Duration::from_millis(60), ..Faults::none() }).unwrap();
    let started = Instant::now();
    run_to_done(&disk, CHILD, "write and sync");
    assert!(started.elapsed() >= Duration::from_millis(240), "{:?}", started.elapsed());
    assert_eq!(disk.counters().unwrap().slow, 4);
}

#[test]
fn a_sync_does_not_stop_other_writes_and_does_not_cover_those_made_meanwhile() {
    let (_directory, mut disk) = disk();
    std::fs::write(disk.directory().join("log"), b"").unwrap();
    disk.settle().unwrap();
    disk.set(Faults { sync_delay: Duration::from_millis(1200), ..Faults::none() }).unwrap();
    let outside = tempfile::tempdir().unwrap();
    let go = outside.path().join("go");
    let done = KillPoint::failpoint("done", 1);
    let running = child(&disk, CHILD, "write during a sync").env(GO, &go).start(&done).unwrap();
    let until = Instant::now() + Duration::from_secs(300);
    while disk.counters().unwrap().syncs == 0 {
        assert!(Instant::now() < until, "the child does not sync");
        std::thread::sleep(Duration::from_millis(1));
    }
    // What the sync covers is decided; it now sleeps.
    std::fs::write(&go, b"").unwrap();
    running.finish(&done).unwrap();
    assert_eq!(files(disk.directory())["log"], b"before during");
    assert_eq!(after(&disk, PowerCut::Nothing).0["log"], b"before ");
}

#[test]
fn a_disk_breaks_and_heals_while_the_child_runs() {
    for (fault, kind) in [(Faults::full(), "FAILED StorageFull"), (Faults::broken(), "FAILED Uncategorized")]
    {
        let (_directory, disk) = disk();
        let done = KillPoint::failpoint("done", 1);
        let mut running = child(&disk, CHILD, "until healed").start(&done).unwrap();
        running.wait_for(&KillPoint::line("FINE", 3)).unwrap();
        disk.set(fault).unwrap();
        running.wait_for(&KillPoint::line(kind, 3)).unwrap();
        disk.set(Faults::none()).unwrap();
        let seen = running.finish(&done).unwrap();
        assert_eq!(seen.lines("HEALED").len(), 1);
    }
}
