//! Reads a directory of recorded answers, and compares the reader with a plain one: `cargo xtask recorded`.
//!
//! The directory has an `INDEX.tsv` (format, file, source), a folder per format, and perhaps `errors.jsonl`.

mod compare;
mod errors;
mod plain;
mod providers;

use compare::Verdict;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use turnstream_llm::Format;

/// The most whole recordings that may be refused.
const MOST_REFUSED: u32 = 1;

/// Counts of one profile.
#[derive(Default)]
struct Row {
    files: u32,
    whole: u32,
    refused: u32,
    tainted: u32,
    failed: u32,
    broken: u32,
}

fn main() -> ExitCode {
    let Some(dir) = std::env::args().nth(1) else {
        eprintln!("usage: cargo xtask recorded DIR");
        return ExitCode::FAILURE;
    };
    match run(Path::new(&dir)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("recorded: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the recordings were read as they should be.
fn run(dir: &Path) -> Result<bool, String> {
    let index = read(&dir.join("INDEX.tsv"))?;
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let mut reasons = Vec::new();
    let (mut wrong_calls, mut differing) = (0, 0);
    for line in String::from_utf8_lossy(&index).lines().skip(1) {
        let mut fields = line.split('\t');
        let (Some(format), Some(file), Some(source)) = (fields.next(), fields.next(), fields.next()) else {
            return Err(format!("INDEX.tsv: a line without three fields: {line:?}"));
        };
        let Some(format) = Format::ALL.into_iter().find(|known| known.name() == format) else {
            return Err(format!("INDEX.tsv: unknown format {format:?} in {line:?}"));
        };
        let bytes = read(&dir.join(format.name()).join(file))?;
        let profile = providers::profile(source);
        let compared = compare::compare(format, profile, &bytes);
        let row = rows.entry(profile.name.to_string()).or_default();
        row.files += 1;
        row.tainted += u32::from(compared.tainted);
        match &compared.verdict {
            Verdict::Whole => row.whole += 1,
            Verdict::Refused(_) => row.refused += 1,
            Verdict::Failed => row.failed += 1,
            Verdict::Broken(_) => row.broken += 1,
        }
        wrong_calls += compared.wrong_calls;
        differing += u32::from(compared.difference.is_some());
        let why = match compared.verdict {
            Verdict::Whole | Verdict::Failed => None,
            Verdict::Refused(why) => Some(format!("refused, {why}")),
            Verdict::Broken(why) => Some(format!("broken recording, {why}")),
        };
        for why in why.into_iter().chain(compared.difference) {
            reasons.push(format!("{}/{file} ({}): {why}", format.name(), profile.name));
        }
    }
    println!(
        "{:<14} {:>6} {:>6} {:>8} {:>8} {:>7} {:>7}",
        "profile", "files", "whole", "refused", "tainted", "failed", "broken"
    );
    let mut all = Row::default();
    for (name, row) in &rows {
        print_row(name, row);
        all.files += row.files;
        all.whole += row.whole;
        all.refused += row.refused;
        all.tainted += row.tainted;
        all.failed += row.failed;
        all.broken += row.broken;
    }
    print_row("all", &all);
    println!(
        "\nwrong calls: {wrong_calls}; whole, but read otherwise than by the plain reader: {differing}\n"
    );
    reasons.iter().for_each(|reason| println!("{reason}"));
    let path = dir.join("errors.jsonl");
    if path.exists() {
        errors::print(&String::from_utf8_lossy(&read(&path)?));
    }
    let holds = all.refused <= MOST_REFUSED && wrong_calls == 0 && differing == 0;
    println!("\n{}", if holds { "as promised" } else { "NOT as promised" });
    Ok(holds)
}

fn print_row(name: &str, row: &Row) {
    let Row { files, whole, refused, tainted, failed, broken } = row;
    println!("{name:<14} {files:>6} {whole:>6} {refused:>8} {tainted:>8} {failed:>7} {broken:>7}");
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
