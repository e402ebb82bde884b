//! A session far larger than what the gateway may hold at a time: it passes through in bounded memory.

use super::{exported, talked};
use crate::support::{Home, Serving, is_full};
use std::fs::File;
use std::io::{BufWriter, Write};

/// The length of the text that each event writes.
const TEXT: usize = 4_000;

/// The most memory that a process had, in bytes.
#[cfg(target_os = "linux")]
fn peak(serving: &Serving) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", serving.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[cfg(target_os = "linux")]
#[test]
fn a_large_session_is_imported_and_exported_in_bounded_memory() {
    let (here, there) = (Home::new(), Home::new());
    let id = talked(&here);
    let (header, events) = exported(&here, &id);
    let place = events.iter().position(|event| event.contains("\"item.delta\"")).unwrap();
    let path = here.path("large.jsonl");
    let mut out = BufWriter::new(File::create(&path).unwrap());
    let pieces = if is_full() { 50_000 } else { 25_000 };
    let total = events.len() + pieces;
    let count = |head: usize| format!("\"head\":{head}");
    writeln!(out, "{}", header.to_string().replace(&count(events.len()), &count(total))).unwrap();
    let mut seq = 0;
    let mut write = |event: &str| {
        seq += 1;
        writeln!(out, "{{\"seq\":{seq}{}", &event[event.find(',').unwrap()..]).unwrap();
    };
    for (index, event) in events.iter().enumerate() {
        write(event);
        if index == place {
            // The same item says something else again and again: the log is long and the session is not.
            let replaced = event.replace("item.delta", "item.replaced");
            let start = replaced.find("\"text\":\"").unwrap() + 8;
            for number in 0..pieces {
                let text = format!("{number} ").repeat(TEXT / 6);
                let end = start + replaced[start..].find("\",").or(replaced[start..].find("\"}")).unwrap();
                write(&format!("{}{text}{}", &replaced[..start], &replaced[end..]));
            }
        }
    }
    out.flush().unwrap();
    drop(out);
    let size = path.metadata().unwrap().len() as usize;

    let serving = there.serve(&[]);
    let before = peak(&serving);
    let import = there.run(&["import", path.to_str().unwrap()]);
    assert_eq!(import.status.code(), Some(0), "{import:?}");
    let copy = there.path("copy.jsonl");
    let export = there.run(&["export", &id, "-o", copy.to_str().unwrap()]);
    assert_eq!(export.status.code(), Some(0), "{export:?}");
    let grown = peak(&serving) - before;
    eprintln!("a file of {} MB took {} MB", size >> 20, grown >> 20);
    // Budgets and caches, which no file makes larger: about 70 MB, whether it is one of 80 or of 280.
    assert!(grown < size, "{grown} bytes for a file of {size}");
    let (one, other) = (std::fs::read(&path).unwrap(), std::fs::read(&copy).unwrap());
    let events = |file: &[u8]| file.iter().position(|byte| *byte == b'\n').map(|end| file[end..].to_vec());
    assert!(events(&one) == events(&other), "the events are the same, byte for byte");
}
