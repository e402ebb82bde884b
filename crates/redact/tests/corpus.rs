//! Ordinary text is not damaged: the sources, documents and captured transcripts of this repository, and on
//! demand a larger corpus.
//!
//! `TURNSTREAM_REDACT_CORPUS=folder` measures another folder and lists what it finds, without a bound.

use std::path::{Path, PathBuf};
use turnstream_redact::{Rules, Stream};

/// What stands between the braces of findings that are right: `opencode:new`, `lab:new`, `user:t0ken`,
/// `user:other`, `opencode:wrong`, `onyx:lab-password`, `opencode:lab-password` in base64, and passwords in
/// URLs.
const CREDENTIALS: &[&str] = &[
    "{b3BlbmNvZGU6bmV3}",
    "{bGFiOm5ldw==}",
    "{dXNlcjp0MGtlbg==}",
    "{dXNlcjpvdGhlcg==}",
    "{b3BlbmNvZGU6d3Jvbmc=}",
    "{b255eDpsYWItcGFzc3dvcmQ=}",
    "{b3BlbmNvZGU6bGFiLXBhc3N3b3Jk}",
    "{hunter2}",
    "{x7kq9zt2}",
    "{sesame}",
    "{Kartoffel7}",
];

/// What a text became, by kind, with its surroundings.
fn findings(rules: &Rules, name: &str, text: &str) -> Vec<String> {
    let redacted = rules.redact(text);
    let mut found = Vec::new();
    let mut rest = &redacted[..];
    let mut raw = text;
    while let Some(at) = rest.find("[redacted:") {
        // Up to here both are the same, unless the text itself has a marker.
        if !raw.is_char_boundary(at.min(raw.len())) || raw.get(..at) != Some(&rest[..at]) {
            break;
        }
        let end = rest[at..].find(']').map_or(rest.len(), |end| at + end + 1);
        if raw[at..].starts_with(&rest[at..end]) {
            (rest, raw) = (&rest[end..], &raw[end..]);
            continue;
        }
        let after: String = rest[end..].chars().take(12).collect();
        let length =
            if after.is_empty() { raw.len() - at } else { raw[at..].find(&after).unwrap_or(raw.len() - at) };
        let from = rest[..at].char_indices().rev().nth(30).map_or(0, |(at, _)| at);
        let secret: String = raw[at..at + length].chars().take(60).collect();
        found.push(format!("{name}: {} {:?}{{{secret}}}{after:?}", &rest[at..end], &rest[from..at]));
        (rest, raw) = (&rest[end..], &raw[at + length..]);
    }
    found
}

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            // Tests of redaction hold secrets on purpose, and what fuzzing leaves is no ordinary text.
            if !["target", ".git", "tests", "fuzz/corpus", "fuzz/artifacts"]
                .iter()
                .any(|name| path.ends_with(name))
            {
                files(&path, into);
            }
        } else {
            into.push(path);
        }
    }
}

/// Every text below the folders: how many bytes, and what was found.
fn measure(roots: &[PathBuf]) -> (usize, Vec<String>) {
    let rules = Rules::standard();
    let mut paths = Vec::new();
    for root in roots {
        if root.is_dir() { files(root, &mut paths) } else { paths.push(root.clone()) }
    }
    paths.sort();
    let (mut bytes, mut found) = (0, Vec::new());
    for path in paths {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        bytes += text.len();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.extend(findings(&rules, &name, &text));
    }
    (bytes, found)
}

fn report(bytes: usize, found: &[String]) -> f64 {
    let megabytes = bytes as f64 / 1e6;
    let rate = found.len() as f64 / megabytes;
    println!("{} matches in {megabytes:.1} MB of ordinary text: {rate:.2} per MB", found.len());
    for line in found {
        println!("  {line}");
    }
    rate
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn sources_documents_and_transcripts_of_this_repository_stay_what_they_are() {
    let root = repository();
    let roots = ["crates", "docs", "fixtures", "benches", "xtask", "Cargo.lock", "README.md", "CHANGELOG.md"];
    let (bytes, found) = measure(&roots.map(|name| root.join(name)));
    assert!(bytes > 5_000_000, "the corpus is missing: {bytes} bytes");
    // These are what they are taken for: users and passwords of tests and of a captured server.
    let (real, mistaken): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|line| CREDENTIALS.iter().any(|credential| line.contains(credential)));
    println!("{} credentials of tests are found, which is right", real.len());
    let rate = report(bytes, &mistaken);
    assert!(rate < 0.3, "{rate:.2} false matches per MB");
}

/// Of how many texts that begin at arbitrary places the first run is taken for the rest of a secret, in
/// percent.
fn taken_in_the_middle(name: &str, folders: &[&str]) -> f64 {
    let rules = Rules::standard();
    let mut paths = Vec::new();
    for folder in folders {
        files(&repository().join(folder), &mut paths);
    }
    paths.sort();
    let (mut starts, mut taken) = (0, Vec::new());
    for path in paths {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        // 97 is prime: the cuts fall everywhere within lines.
        for at in (50..text.len()).step_by(97) {
            let Some(rest) = text.get(at..text.len().min(at + 400)) else { continue };
            let (mut stream, mut out) = (Stream::in_the_middle(&rules), String::new());
            stream.push(rest, &mut out);
            stream.finish(&mut out);
            starts += 1;
            if out.starts_with("[redacted:fragment]") {
                taken.push(rest.chars().take(48).collect::<String>());
            }
        }
    }
    let share = 100.0 * taken.len() as f64 / starts as f64;
    println!(
        "{name}: {} of {starts} texts that begin in the middle lose their first run: {share:.2} %",
        taken.len()
    );
    for line in taken.iter().step_by(taken.len().div_ceil(25).max(1)) {
        println!("  {line:?}");
    }
    share
}

#[test]
fn texts_that_begin_in_the_middle_keep_their_first_word() {
    let share = taken_in_the_middle("sources and documents", &["crates", "docs", "xtask", "benches/src"]);
    assert!(share < 0.5, "{share:.2} %");
    // Protocol messages are full of random ids, which nobody can tell from the rest of a key.
    let share = taken_in_the_middle("captured protocol messages", &["fixtures"]);
    assert!(share < 15.0, "{share:.2} %");
}

/// An end that may be none takes what has begun like a secret for one, also words. How often do words stand
/// there?
#[test]
fn ends_that_may_be_none_take_hardly_a_word() {
    let rules = Rules::standard();
    let mut paths = Vec::new();
    for folder in ["crates", "docs", "xtask", "benches/src"] {
        files(&repository().join(folder), &mut paths);
    }
    paths.sort();
    let (mut ends, mut taken) = (0, Vec::new());
    for path in paths {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for at in (50..text.len()).step_by(97) {
            let Some(piece) = text.get(at.saturating_sub(200)..at) else { continue };
            let (mut stream, mut out) = (Stream::new(&rules), String::new());
            stream.push(piece, &mut out);
            stream.settle(&mut out);
            ends += 1;
            if out != rules.redact(piece) {
                taken.push(piece.chars().skip(piece.chars().count().saturating_sub(48)).collect::<String>());
            }
        }
    }
    let share = 100.0 * taken.len() as f64 / ends as f64;
    println!("{} of {ends} texts that may end anywhere lose their last run: {share:.3} %", taken.len());
    for line in taken.iter().step_by(taken.len().div_ceil(25).max(1)) {
        println!("  {line:?}");
    }
    assert!(share < 0.1, "{share:.3} %");
}

#[test]
fn a_folder_given_by_hand_is_measured() {
    let Some(folder) = std::env::var_os("TURNSTREAM_REDACT_CORPUS") else { return };
    let (bytes, found) = measure(&[PathBuf::from(folder)]);
    assert!(bytes > 0, "nothing to read in the folder");
    report(bytes, &found);
}
