//! `turnstream check FILE`: the law checker over an exported log.

use crate::escape::{self, preview};
use crate::input::{Input, InputError};
use crate::out::{self, Lines};
use serde_json::json;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use turnstream_model::check::{Checker, Report, Tail, Violation};

/// Check an exported log: does it keep the laws of docs/architecture.md?
///
/// The file has JSON lines, one event each, with or without a header line. Exit codes: 0 if no law is
/// broken, 1 if one is, 2 if the file cannot be read.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The log file; - reads standard input
    file: PathBuf,
    /// Allow an open turn at the end: the session still runs
    #[arg(long)]
    live: bool,
    /// Print one JSON object per violation instead of text
    #[arg(long)]
    json: bool,
}

/// Why a log could not be checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(
        "{0} is an SSE stream, and check reads JSON lines; `turnstream inspect FILE` shows a stream, and \
         `sed -n 's/^data: //p' FILE | turnstream check --live -` judges the events of a native one"
    )]
    Stream(String),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// Reads the log line by line and prints each violation when it is found. If the reader of standard output
/// closes it (`| head`), the exit code is that of the part that was checked.
pub(crate) fn run(args: &Args) -> Result<ExitCode, CheckError> {
    let mut out = Lines::new();
    let mut violations = 0;
    match judge(args, &mut out, &mut violations) {
        Err(CheckError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => return Err(error),
        Ok(()) => {}
    }
    Ok(if violations == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn judge(args: &Args, out: &mut Lines, violations: &mut usize) -> Result<(), CheckError> {
    let mut input = Input::open(&args.file)?;
    let beginning = input.text_beginning("check reads an exported log: JSON lines, one event each.")?;
    if [&b"data:"[..], b"event:", b"id:", b"retry:", b":"].iter().any(|field| beginning.starts_with(field)) {
        return Err(CheckError::Stream(input.name.clone()));
    }
    let mut checker = Checker::new();
    let (mut line, mut bytes) = (0, Vec::new());
    while input.read_line(line + 1, &mut bytes)? {
        line += 1;
        match std::str::from_utf8(&bytes) {
            Ok(text) => {
                let text = if line == 1 { text.trim_start_matches('\u{feff}') } else { text };
                checker.line(text.trim_end_matches('\r'));
            }
            Err(error) => checker.unreadable_line(&format!("not UTF-8 from byte {} on", error.valid_up_to())),
        }
        for violation in checker.take_violations() {
            *violations += 1;
            write(&violation, args.json, out)?;
        }
    }
    let report = checker.finish(if args.live { Tail::Live } else { Tail::Settled });
    for violation in &report.violations {
        *violations += 1;
        write(violation, args.json, out)?;
    }
    out.flush()?;
    let summary = escape::text(&summary(&report, *violations));
    if args.json {
        out::note(summary);
    } else {
        out.line(&summary)?;
    }
    Ok(out.flush()?)
}

fn write(violation: &Violation, as_json: bool, out: &mut Lines) -> io::Result<()> {
    if as_json {
        let Violation { line, seq, law, message } = violation;
        let object = json!({"line": line, "seq": seq, "law": law.to_string(), "message": message});
        out.line(&escape::json(&object.to_string()))
    } else {
        out.line(&preview(&violation.to_string(), usize::MAX))
    }
}

fn summary(report: &Report, violations: usize) -> String {
    let count = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let broken = if violations == 0 { "no law broken".to_owned() } else { count(violations, "violation") };
    format!("{}, {}: {broken}", count(report.events, "event"), count(report.turns, "turn"))
}
