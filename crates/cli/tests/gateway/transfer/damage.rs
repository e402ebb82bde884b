//! Files that are damaged: each is refused with the line, and nothing of it is kept.

use super::{ask, exported, sessions, talked};
use crate::support::{Home, Serving, stderr};
use serde_json::Value;

/// A whole file, and a gateway that never saw it.
fn file() -> (Vec<String>, Home, Serving) {
    let home = Home::new();
    let id = talked(&home);
    let (header, events) = exported(&home, &id);
    let there = Home::new();
    let serving = there.serve(&[]);
    let mut lines = vec![header.to_string()];
    lines.extend(events);
    (lines, there, serving)
}

fn import(serving: &Serving, file: &str) -> (u16, Value) {
    ask(serving, "POST", "/v1/import", file.as_bytes())
}

/// That it is refused so, with this line.
#[track_caller]
fn refused(serving: &Serving, file: &str, fault: &str, line: usize) -> String {
    let (status, problem) = import(serving, file);
    assert_eq!(problem["type"], "urn:turnstream:problem:bad-import", "{problem}");
    assert_eq!(
        (status, &problem["fault"], &problem["line"]),
        (400, &fault.into(), &line.into()),
        "{problem}"
    );
    problem["detail"].as_str().unwrap().to_owned()
}

#[test]
fn a_file_that_was_cut_anywhere_is_refused_with_its_last_line() {
    let (lines, there, serving) = file();
    for kept in 1..lines.len() {
        refused(&serving, &(lines[..kept].join("\n") + "\n"), "cut_off", kept);
        // In the middle of the next line.
        let half = &lines[kept][..lines[kept].len() / 2];
        let cut = format!("{}\n{half}", lines[..kept].join("\n"));
        assert!(refused(&serving, &cut, "damaged", kept + 1).contains("it is not an event"));
    }
    refused(&serving, "", "damaged", 1);
    refused(&serving, &lines[1..].join("\n"), "damaged", 1);
    assert!(sessions(&there).is_empty());
    let (status, session) = import(&serving, &lines.join("\n"));
    assert_eq!(status, 201, "whole, also without the last line feed: {session}");
}

#[test]
fn lines_that_are_missing_twice_or_in_another_order_are_refused() {
    let (lines, there, serving) = file();
    for place in 1..lines.len() - 1 {
        let mut swapped = lines.clone();
        swapped.swap(place, place + 1);
        refused(&serving, &swapped.join("\n"), "damaged", place + 1);
        let mut twice = lines.clone();
        twice.insert(place, lines[place].clone());
        refused(&serving, &twice.join("\n"), "damaged", place + 2);
        let mut missing = lines.clone();
        missing.remove(place);
        refused(&serving, &missing.join("\n"), "damaged", place + 1);
    }
    let more = format!(
        "{}\n{}",
        lines.join("\n"),
        lines
            .last()
            .unwrap()
            .replace(&format!("\"seq\":{}", lines.len() - 1), &format!("\"seq\":{}", lines.len()),)
    );
    assert!(refused(&serving, &more, "damaged", lines.len() + 1).contains("is the last one"));
    assert!(sessions(&there).is_empty());
}

#[test]
fn a_later_format_another_session_and_a_broken_law_are_told_apart() {
    let (lines, there, serving) = file();
    let with = |place: usize, part: &str, other: &str| {
        let mut lines = lines.clone();
        assert!(lines[place].contains(part), "{}", lines[place]);
        lines[place] = lines[place].replace(part, other);
        lines.join("\n")
    };
    let newer = with(0, "\"format\":1", "\"format\":3");
    assert!(refused(&serving, &newer, "newer", 1).contains("use a newer turnstream"));
    let without_base = with(0, "\"format\":1", "\"format\":2");
    assert!(refused(&serving, &without_base, "damaged", 1).contains("format 2 has a base"));
    let older = with(0, "\"first\":1", "\"first\":2");
    assert!(refused(&serving, &older, "trimmed", 1).contains("export it again"));
    refused(&serving, &with(1, "\"session\":\"ses_", "\"session\":\"another_"), "damaged", 2);
    refused(&serving, &with(0, "\"type\":\"export\"", "\"type\":\"other\""), "damaged", 1);
    let place = lines.iter().position(|line| line.contains("\"turn.ended\"")).unwrap();
    let unlawful = with(place, "\"turn\":\"t1\"", "\"turn\":\"t7\"");
    refused(&serving, &unlawful, "unlawful", place + 1);
    let place = lines.iter().position(|line| line.contains("\"item.started\"")).unwrap();
    let item = with(place, "\"item\":\"i1\"", "\"item\":\"i900\"");
    refused(
        &serving,
        &item,
        "unlawful",
        lines.iter().position(|line| line.contains("\"i1\"") && !line.contains("item.started")).unwrap() + 1,
    );
    let last = lines.len() - 1;
    let open = with(last, "\"idle\"", "\"recovering\"");
    refused(&serving, &open, "open", last + 1);
    let id = "\"session\":\"../../etc\"";
    let escaping = lines.iter().map(|line| {
        let start = line.find("\"session\":\"");
        start.map_or(line.clone(), |start| {
            let end = start + 11 + line[start + 11..].find('"').unwrap() + 1;
            format!("{}{id}{}", &line[..start], &line[end..])
        })
    });
    let escaping = escaping.collect::<Vec<_>>().join("\n");
    assert!(refused(&serving, &escaping, "damaged", 1).contains("cannot be used here: an id has"));
    assert!(sessions(&there).is_empty());

    let path = there.path("newer.jsonl");
    std::fs::write(&path, newer).unwrap();
    let told = there.run(&["import", path.to_str().unwrap()]);
    assert_eq!(told.status.code(), Some(2), "{told:?}");
    assert!(stderr(&told).contains("newer.jsonl: line 1: the file has format 3"), "{told:?}");
    let none = there.run(&["import", "nowhere.jsonl"]);
    assert!(stderr(&none).contains("cannot read nowhere.jsonl"), "{none:?}");
}

#[test]
fn a_file_with_one_wrong_byte_is_refused_or_is_what_it_says() {
    let (lines, there, serving) = file();
    let whole = lines.join("\n").into_bytes();
    let mut rng = fastrand::Rng::with_seed(5);
    let (mut refusals, mut sound) = (0, 0);
    for _ in 0..300 {
        let mut file = whole.clone();
        let place = rng.usize(..file.len());
        file[place] ^= 1 << rng.u32(..8);
        let before = whole[..place].iter().filter(|byte| **byte == b'\n').count() + 1;
        let (status, answer) = ask(&serving, "POST", "/v1/import?new_id=true", &file);
        match status {
            400 => {
                // The line itself, or a later one that no longer fits it.
                assert!(answer["line"].as_u64().unwrap() as usize >= before, "{answer}");
                refusals += 1;
            }
            201 => {
                let text = String::from_utf8(file).unwrap();
                let (_, kept) = exported(&there, answer["id"].as_str().unwrap());
                let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
                let first = parse(text.lines().nth(1).unwrap());
                let mut latest = first["time"].as_u64().unwrap();
                for (line, kept) in text.lines().skip(2).zip(&kept[1..]) {
                    let mut expected = parse(line);
                    // Times do not run backwards.
                    latest = latest.max(expected["time"].as_u64().unwrap());
                    expected["time"] = latest.into();
                    assert_eq!(expected, parse(kept));
                }
                sound += 1;
            }
            other => panic!("{other}: {answer}"),
        }
    }
    assert!(refusals > 100, "{refusals} were refused");
    assert_eq!(sessions(&there).len(), sound);
}
