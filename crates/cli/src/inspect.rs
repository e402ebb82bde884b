//! `turnstream inspect FILE`: everything in a saved stream, with byte offsets.

mod item;
mod json;
mod ndjson;
mod table;

use crate::input::{Input, InputError};
use item::{Item, Summary};
use std::io::{self, BufRead, BufWriter, Write};
use std::path::PathBuf;
use turnstream_sse::Decoder;

/// Show every event, comment, anomaly and residue of a saved SSE stream or NDJSON file, with byte offsets.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The saved stream; - for standard input
    file: PathBuf,
    /// What the file is; found out from its beginning if not given
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// One JSON object per line, with all the data, instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Server-sent events
    Sse,
    /// One JSON value per line
    Ndjson,
}

/// Why a file could not be inspected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InspectError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
}

/// Where items go.
enum Output<W> {
    Table(table::Table<W>),
    Json(json::JsonLines<W>),
}

/// Reads the file piece by piece, however large it is, and writes what is in it. A reader that goes away
/// (`| head`) ends it without an error.
pub(crate) fn run(args: &Args) -> Result<(), InspectError> {
    let input = Input::open(&args.file)?;
    let format = match args.format {
        Some(format) => format,
        None => detect(&input)?,
    };
    let stdout = BufWriter::new(io::stdout().lock());
    let output = if args.json {
        Output::Json(json::JsonLines::new(stdout))
    } else {
        Output::Table(table::Table::new(stdout, terminal_width()))
    };
    match show(input, format, output) {
        Err(InspectError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Tells NDJSON from SSE by the first byte that is not white space: no SSE line starts with a bracket.
fn detect(input: &Input) -> Result<Format, InputError> {
    let otherwise = "If it is SSE or NDJSON all the same, say which: --format sse or --format ndjson";
    let beginning = input.text_beginning(otherwise)?;
    match beginning.trim_ascii_start().first() {
        Some(b'{' | b'[') => Ok(Format::Ndjson),
        Some(_) | None => Ok(Format::Sse),
    }
}

/// The width of the terminal; without one, what fits most places that text is pasted into.
fn terminal_width() -> usize {
    terminal_size::terminal_size_of(io::stdout()).map_or(160, |(width, _)| usize::from(width.0))
}

fn show(mut input: Input, format: Format, mut output: Output<impl Write>) -> Result<(), InspectError> {
    let mut summary = Summary::default();
    let mut write = |item: &Item<'_>| {
        summary.count(item);
        output.item(item).map_err(InspectError::Output)
    };
    let bytes = match format {
        Format::Sse => show_sse(&mut input, &mut write)?,
        Format::Ndjson => ndjson::show(&mut input, &mut write)?,
    };
    output.end(&summary, bytes).map_err(InspectError::Output)
}

fn show_sse(
    input: &mut Input,
    write: &mut impl FnMut(&Item<'_>) -> Result<(), InspectError>,
) -> Result<u64, InspectError> {
    let Input { name, reader } = input;
    let mut decoder = Decoder::new();
    loop {
        let read = reader.fill_buf().map_err(|error| InputError::unreadable(name, error))?;
        if read.is_empty() {
            break;
        }
        let mut frames = decoder.feed(read);
        while let Some(frame) = frames.next_frame() {
            write(&Item::Frame(frame))?;
        }
        drop(frames);
        let length = read.len();
        reader.consume(length);
    }
    if let Some(frame) = decoder.finish() {
        write(&Item::Frame(frame))?;
    }
    Ok(decoder.offset())
}

impl<W: Write> Output<W> {
    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        match self {
            Self::Table(table) => table.item(item),
            Self::Json(lines) => lines.item(item),
        }
    }

    /// The counts: below the table, or beside the JSON lines on standard error.
    fn end(self, summary: &Summary, bytes: u64) -> io::Result<()> {
        match self {
            Self::Table(table) => table.end(&format!("{summary}; {bytes} bytes")),
            Self::Json(lines) => {
                lines.end()?;
                writeln!(io::stderr(), "{summary}; {bytes} bytes")
            }
        }
    }
}
