//! The crash harness against real child processes: shells, and this test binary itself.

// Helpers of a test may panic, like the test itself.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use turnstream_testkit::crash::{CrashError, Ended, KillPoint, Program, Rounds, role};

const FILE: &str = "TESTKIT_CRASH_FILE";

fn shell(script: &str) -> Program {
    Program::new("sh").arg("-c").arg(script).deadline(Duration::from_secs(300))
}

/// The child of the tests below: appends numbers to a file, each on disk before it is announced.
#[test]
fn appending_child() {
    if role().as_deref() != Some("append") {
        return;
    }
    let mut file =
        std::fs::OpenOptions::new().read(true).append(true).open(std::env::var(FILE).unwrap()).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    // A line cut by the last kill is not a record.
    file.set_len(text.rfind('\n').map_or(0, |end| end as u64 + 1)).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    let first = text.lines().count() + 1;
    for number in first..first + 5000 {
        turnstream_failpoint::reach("append.before_write");
        writeln!(file, "{number}").unwrap();
        turnstream_failpoint::reach("append.after_write");
        println!("FRAME {number}");
    }
}

fn appender(file: &Path) -> Program {
    Program::this_test("appending_child", "append").unwrap().env(FILE, file)
}

#[test]
fn the_child_dies_after_the_chosen_line_and_what_it_printed_is_kept() {
    let seen = shell("i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo frame $i; sleep 0.01; done")
        .run(&KillPoint::line("frame ", 3))
        .unwrap();
    assert_eq!(seen.ended, Ended::Killed);
    let frames = seen.lines("frame ");
    assert_eq!(frames[..3], ["1", "2", "3"]);
    assert!(frames.len() < 2000);
}

#[test]
fn the_child_dies_after_a_number_of_bytes() {
    let seen = shell("while :; do printf 0123456789; sleep 0.01; done").run(&KillPoint::Bytes(25)).unwrap();
    assert_eq!(seen.ended, Ended::Killed);
    assert!(seen.stdout.len() >= 25);
}

#[test]
fn the_child_dies_after_a_seeded_random_time() {
    let mut rng = fastrand::Rng::with_seed(4);
    let point = KillPoint::random_time(&mut rng, Duration::from_millis(50)..Duration::from_millis(150));
    let started = Instant::now();
    let seen = shell("sleep 600").run(&point).unwrap();
    assert_eq!(seen.ended, Ended::Killed);
    assert!(started.elapsed() >= Duration::from_millis(50), "{:?}", started.elapsed());
}

#[test]
fn grandchildren_die_with_the_group() {
    let mut running = shell("sleep 300 & echo $!; wait").start(&KillPoint::Exit).unwrap();
    running.wait_for(&KillPoint::line("", 1)).unwrap();
    let seen = running.kill().unwrap();
    let grandchild = &seen.lines("")[0];
    // It closes its pipes a moment before it is dead, and may stay as a zombie until somebody reaps it.
    let dead = || {
        let state = std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ") || state.contains(") X ")
    };
    let by = Instant::now() + Duration::from_secs(300);
    while !dead() {
        assert!(Instant::now() < by, "process {grandchild} is still there");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn dropping_a_running_child_kills_it() {
    let running = shell("sleep 300").start(&KillPoint::Exit).unwrap();
    let id = running.id();
    drop(running);
    assert!(!Path::new(&format!("/proc/{id}")).exists());
}

#[test]
fn a_child_that_ends_before_its_point_is_an_error_that_shows_what_it_said() {
    let error = shell("echo one; echo because >&2; exit 3").run(&KillPoint::line("two", 1)).unwrap_err();
    assert!(matches!(&error, CrashError::EndedEarly { seen, .. } if seen.lines("") == ["one"]));
    let text = error.to_string();
    assert!(text.contains("exit status: 3") && text.contains("because"), "{text}");
}

#[test]
fn a_child_that_misses_its_deadline_is_killed() {
    let error =
        shell("sleep 300").deadline(Duration::from_millis(100)).run(&KillPoint::line("x", 1)).unwrap_err();
    assert!(matches!(error, CrashError::Deadline { .. }), "{error}");
}

#[test]
fn a_child_that_floods_its_output_is_stopped() {
    let error = shell("yes").stdout_cap(1 << 20).run(&KillPoint::Exit).unwrap_err();
    assert!(matches!(error, CrashError::TooMuchOutput { cap: 1_048_576, .. }), "{error}");
}

#[test]
fn a_child_stops_exactly_at_the_chosen_passage_of_a_failpoint() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log");
    std::fs::write(&file, "").unwrap();
    let cases = [("append.before_write", 4, "1\n2\n3\n", 3), ("append.after_write", 2, "1\n2\n3\n4\n5\n", 1)];
    for (name, nth, left, announced) in cases {
        let seen = appender(&file).run(&KillPoint::failpoint(name, nth)).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), left, "{name}");
        assert_eq!(seen.lines("FRAME ").len(), announced, "{name}");
    }
}

#[test]
fn over_many_kills_and_restarts_no_announced_record_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = directory.path().join("log");
    std::fs::write(&file, "").unwrap();
    Rounds::seeded(1, 25)
        .run(
            &mut file,
            |file, round| Ok((appender(file), KillPoint::line("FRAME ", round.rng.u64(1..40)))),
            |file, _, seen| {
                let left = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
                let left: HashSet<&str> = left.lines().collect();
                match seen.lines("FRAME ").iter().find(|frame| !left.contains(frame.as_str())) {
                    Some(frame) => Err(format!("record {frame} was announced and is gone")),
                    None => Ok(()),
                }
            },
        )
        .unwrap();
}

#[test]
fn the_first_failing_round_ends_the_run_and_names_seed_round_and_output() {
    let mut verified = 0;
    let failure = Rounds::seeded(77, 10)
        .run(
            &mut verified,
            |_, _| Ok((shell("echo hello; sleep 60"), KillPoint::line("hello", 1))),
            |verified, round, _| {
                *verified += 1;
                if round.number == 3 { Err("it broke".to_owned()) } else { Ok(()) }
            },
        )
        .unwrap_err();
    assert_eq!(verified, 3);
    let text = format!("{failure:?}");
    for part in ["round 3 of 10", &format!("TURNSTREAM_SEED={}", failure.seed), "it broke", "hello"] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
}
