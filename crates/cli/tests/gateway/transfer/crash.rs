//! A gateway that is killed while it imports: the session is there whole, or nothing of it is.

use super::{exported, sessions, talked};
use crate::support::{Home, Serving, is_full, read, wait_for};
use rustix::process::Signal;
use std::path::Path;
use std::process::Child;
use std::time::Duration;
use turnstream_testkit::lawful::{Tail, assert_lawful};

/// A file with so many copies of a long text in it.
fn file(home: &Home, deltas: usize) -> (String, Vec<String>) {
    let id = talked(home);
    let (header, events) = exported(home, &id);
    let place = events.iter().position(|event| event.contains("\"item.delta\"")).unwrap();
    let mut all = events[..place].to_vec();
    all.extend(std::iter::repeat_n(events[place].clone(), deltas));
    all.extend_from_slice(&events[place + 1..]);
    // Numbered anew; `seq` is the first member.
    for (index, event) in all.iter_mut().enumerate() {
        let rest = event.find(',').unwrap();
        *event = format!("{{\"seq\":{}{}", index + 1, &event[rest..]);
    }
    let header =
        header.to_string().replace(&format!("\"head\":{}", events.len()), &format!("\"head\":{}", all.len()));
    let path = home.path("s.jsonl");
    std::fs::write(&path, format!("{header}\n{}\n", all.join("\n"))).unwrap();
    (path.to_str().unwrap().to_owned(), all)
}

fn kill(serving: Serving, mut importing: Child) {
    serving.end(Signal::KILL);
    importing.kill().unwrap();
    importing.wait().unwrap();
}

/// Whether it is there after a restart, and then whole; in any case nothing else is.
fn is_there(there: &Home, events: &[String]) -> bool {
    let serving = there.serve(&[]);
    let listed = sessions(there);
    for session in &listed {
        let (_, kept) = exported(there, session["id"].as_str().unwrap());
        assert_eq!(kept, events);
        assert_lawful(kept.iter().map(String::as_str), Tail::Settled);
    }
    let spooled = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with("import-");
    let data = std::fs::read_dir(there.path("data")).unwrap();
    let left: Vec<_> = data.map(|entry| entry.unwrap().path()).filter(|path| spooled(path)).collect();
    assert!(left.is_empty(), "{left:?}");
    serving.end(Signal::KILL);
    assert!(listed.len() <= 1);
    !listed.is_empty()
}

#[test]
fn a_kill_at_any_step_of_an_import_leaves_nothing_or_all() {
    let here = Home::new();
    let (file, events) = file(&here, 7_000);
    for (point, is_whole) in [
        ("gateway.spool", false),
        ("log.import", false),
        ("gateway.importing", false),
        ("log.import.appended", false),
        ("log.import.appended:2", false),
        ("log.import.finish", false),
        ("log.import.reveal", false),
        ("log.import.revealed", true),
        ("gateway.imported", true),
    ] {
        let there = Home::new();
        let serving = there.serve_armed(&[], |command| {
            command.env("TURNSTREAM_FAILPOINT", point);
        });
        let importing = there.command(&["import", &file]).spawn().unwrap();
        wait_for(|| read(&there.path("serve.out")).contains("FAILPOINT_REACHED").then_some(()));
        kill(serving, importing);
        assert_eq!(is_there(&there, &events), is_whole, "{point}");
        let again = there.run(&["import", &file]);
        assert_eq!(again.status.code(), Some(if is_whole { 2 } else { 0 }), "{point}: {again:?}");
        assert!(is_there(&there, &events), "{point}");
    }
}

#[test]
fn a_kill_at_any_moment_of_an_import_leaves_nothing_or_all() {
    let (here, there) = (Home::new(), Home::new());
    let (file, events) = file(&here, 10_000);
    let mut rng = fastrand::Rng::with_seed(9);
    let (rounds, mut whole) = (if is_full() { 12 } else { 5 }, 0);
    for _ in 0..rounds {
        let serving = there.serve(&[]);
        let importing = there.command(&["import", &file]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(rng.u64(100..4_000)));
        kill(serving, importing);
        if is_there(&there, &events) {
            whole += 1;
            std::fs::remove_dir_all(there.path("data")).unwrap();
        }
    }
    // How many came to their end is a matter of time; that each came to one of two ends is what counts.
    assert!(whole <= rounds);
}
