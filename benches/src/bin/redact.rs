//! The redactor on ordinary text, whole and in deltas of 20 bytes, compared with a copy and with regular
//! expressions.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use turnstream_benches::{Bars, Best, Contender, best_of, print_table};
use turnstream_redact::{Rules, Stream};

const ROUNDS: usize = 9;
/// The size of a model's delta.
const DELTA: usize = 20;
/// About what a gateway that collects deltas writes at a time.
const FLUSH: usize = 1024;
/// The text for deltas. It is small, because the naive pass is slow.
const STREAMED: usize = 2_000_000;

const COPY: &str = "plain copy";
const OURS: &str = "turnstream-redact";
const NAIVE: &str = "regex set per flush";

fn main() -> ExitCode {
    let rules = Rules::standard();
    let mut bars = Bars::default();
    let mut rows = vec![["input", "way", "MB/s", "ns per delta", "relative"].map(str::to_owned).to_vec()];
    for (name, text) in [("sources and documents", sources()), ("captured transcripts", transcripts())] {
        let whole = best_of(ROUNDS, vec![copy(&text), ours(&rules, &text)]);
        show(name, &whole, None, &mut rows);
        let fast = speed(&whole, OURS);
        bars.check(&format!("{name}: at least 300 MB/s"), fast >= 300.0, &format!("{fast:.0} MB/s"));

        let deltas = deltas(&text);
        let streamed = best_of(ROUNDS, vec![copy_deltas(&deltas), stream(&rules, &deltas)]);
        show(&format!("{name}, deltas of {DELTA} bytes"), &streamed, Some(deltas.len()), &mut rows);
        let added = per_delta(&streamed, OURS, deltas.len()) - per_delta(&streamed, COPY, deltas.len());
        let what = format!("{name}: less than 200 ns added per delta of {DELTA} bytes");
        bars.check(&what, added < 200.0, &format!("{added:.0} ns"));

        let flushed = best_of(1, vec![naive(&deltas)]);
        show(&format!("{name}, flushes of {FLUSH} bytes"), &flushed, Some(deltas.len()), &mut rows);
    }
    print_table(&rows);
    println!(
        "the expressions are the forms with a prefix, as a set; they see each flush alone, so that a cut hides a token"
    );
    bars.exit_code()
}

fn speed(bests: &[Best], name: &str) -> f64 {
    bests.iter().find(|best| best.name == name).map_or(f64::NAN, Best::speed)
}

fn per_delta(bests: &[Best], name: &str, deltas: usize) -> f64 {
    bests
        .iter()
        .find(|best| best.name == name)
        .map_or(f64::NAN, |best| best.time.as_secs_f64() * 1e9 / deltas as f64)
}

fn show(input: &str, bests: &[Best], deltas: Option<usize>, rows: &mut Vec<Vec<String>>) {
    let first = bests[0].speed();
    for best in bests {
        let delta =
            deltas.map_or(String::new(), |deltas| format!("{:.0}", per_delta(bests, best.name, deltas)));
        let relative = format!("{:.2}", best.speed() / first);
        rows.push(vec![
            input.to_owned(),
            best.name.to_owned(),
            format!("{:.0}", best.speed()),
            delta,
            relative,
        ]);
    }
}

fn copy(text: &str) -> Contender<'_> {
    Contender::new(COPY, text.len(), || black_box(text.to_owned()).len())
}

fn ours<'a>(rules: &'a Rules, text: &'a str) -> Contender<'a> {
    Contender::new(OURS, text.len(), || rules.redact(text).len())
}

fn deltas(text: &str) -> Vec<&str> {
    let mut deltas = Vec::new();
    let mut rest = &text[..floor(text, STREAMED)];
    while !rest.is_empty() {
        let (delta, more) =
            rest.split_at(floor(rest, DELTA).max(rest.chars().next().map_or(0, char::len_utf8)));
        deltas.push(delta);
        rest = more;
    }
    deltas
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn copy_deltas<'a>(deltas: &'a [&'a str]) -> Contender<'a> {
    let bytes = deltas.iter().map(|delta| delta.len()).sum();
    Contender::new(COPY, bytes, move || {
        let mut out = String::with_capacity(4 * DELTA);
        deltas.iter().fold(0, |sum, delta| {
            out.clear();
            out.push_str(delta);
            sum + black_box(&out).len()
        })
    })
}

fn stream<'a>(rules: &'a Rules, deltas: &'a [&'a str]) -> Contender<'a> {
    let bytes = deltas.iter().map(|delta| delta.len()).sum();
    Contender::new(OURS, bytes, move || {
        let (mut stream, mut out) = (Stream::new(rules), String::with_capacity(4 * DELTA));
        let sum = deltas.iter().fold(0, |sum, delta| {
            out.clear();
            stream.push(delta, &mut out);
            sum + black_box(&out).len()
        });
        out.clear();
        stream.settle(&mut out);
        sum + out.len()
    })
}

/// One expression per form, over each flush alone.
fn naive<'a>(deltas: &'a [&'a str]) -> Contender<'a> {
    let forms: Vec<regex::Regex> =
        EXPRESSIONS.iter().filter_map(|form| regex::Regex::new(form).ok()).collect();
    assert_eq!(forms.len(), EXPRESSIONS.len(), "an expression does not compile");
    let text: String = deltas.concat();
    let bytes = text.len();
    Contender::new(NAIVE, bytes, move || {
        let mut rest = &text[..];
        let mut sum = 0;
        while !rest.is_empty() {
            let (flush, more) = rest.split_at(floor(rest, FLUSH));
            let mut flush = std::borrow::Cow::Borrowed(flush);
            for form in &forms {
                if let std::borrow::Cow::Owned(redacted) = form.replace_all(&flush, "[redacted]") {
                    flush = std::borrow::Cow::Owned(redacted);
                }
            }
            sum += flush.len();
            rest = more;
        }
        sum
    })
}

const EXPRESSIONS: &[&str] = &[
    r"\bsk-[A-Za-z0-9_-]{20,}",
    r"AIza[A-Za-z0-9_-]{35}",
    r"\b(?:gsk|hf|r8|fw|npm|cfut|cfat|cfk|sbp)_[A-Za-z0-9]{20,}",
    r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
    r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,}",
    r"gl(?:pat|ptt|dt|rt|cbt|ffct|ft|imt|agent|oas|soat)-[A-Za-z0-9_.-]{20,}",
    r"xox[abeprs]-[A-Za-z0-9-]{16,}|xapp-[A-Za-z0-9-]{16,}",
    r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}",
    r"\beyJ[A-Za-z0-9_-]{12,}\.eyJ[A-Za-z0-9_-]{12,}\.[A-Za-z0-9_-]+",
    r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?-----END [A-Z0-9 ]*-----",
    r"[A-Za-z0-9]+://[^\s:/@]{0,128}:[^\s/@]{3,256}@",
    r"(?i)authorization[^A-Za-z0-9]{1,6}(?:bearer|basic|token) +[A-Za-z0-9._~+/=-]{8,}",
    r#"(?i)(?:password|passwd|passphrase|secret|token|api[_-]?key)["']?\s{0,8}[:=]+\s{0,8}["'][^\s"']{8,}["']"#,
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All texts below these folders.
fn read(folders: &[&str], only: &[&str]) -> String {
    let mut folders: Vec<PathBuf> = folders.iter().map(|name| repository().join(name)).collect();
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            // The redactor's own tests contain secrets, and a key block without an end.
            if path.is_dir() && !["target", "redact"].iter().any(|name| path.ends_with(name)) {
                folders.push(path);
            } else if path.is_file()
                && path.extension().is_some_and(|end| only.iter().any(|only| end == *only))
            {
                text.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
    text
}

fn sources() -> String {
    read(&["crates", "docs", "benches/src", "xtask"], &["rs", "md", "toml"])
}

fn transcripts() -> String {
    read(&["fixtures"], &["sse", "jsonl", "json", "txt", "ndjson"])
}
