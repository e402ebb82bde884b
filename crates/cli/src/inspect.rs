//! `turnstream inspect`: everything in a saved stream, with byte offsets; what a provider's stream amounts to; what is kept
//! of attempts.

mod attempts;
mod item;
mod json;
mod ndjson;
mod provider;
mod table;

use crate::config::{ConfigError, Place};
use crate::escape::{self, Safe};
use crate::input::{Input, InputError};
use crate::out::{self, Lines};
use item::{Item, Summary};
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use turnstream_llm::Profile;
use turnstream_model::attempts::AttemptName;
use turnstream_sse::Decoder;

/// Show every event, comment, anomaly and residue of a saved SSE stream or NDJSON file, with byte offsets; explain a
/// provider's stream; or explain attempts that were kept.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The saved stream; - for standard input
    #[arg(required_unless_present_any = ["attempts", "attempt"], conflicts_with_all = ["attempts", "attempt"])]
    file: Option<PathBuf>,
    /// What the file is; found out from its beginning if not given. With the name of a provider's format the stream is
    /// explained: which completion ended where, what was lost, what may be trusted
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// What is known of the provider, by the name of its profile [default: unknown]
    #[arg(long, value_name = "NAME", requires = "file")]
    profile: Option<String>,
    /// All attempts of this session, instead of a file
    #[arg(long, value_name = "SESSION", conflicts_with = "attempt")]
    attempts: Option<String>,
    /// One attempt and what was kept of its bytes, instead of a file
    #[arg(long, value_name = "SESSION/TURN/NUMBER")]
    attempt: Option<AttemptName>,
    /// The configuration, which may say where everything is kept
    #[arg(long, value_name = "FILE", env = "TURNSTREAM_CONFIG")]
    config: Option<PathBuf>,
    /// The directory everything is kept in
    #[arg(long, value_name = "DIR", env = "TURNSTREAM_DATA")]
    data: Option<PathBuf>,
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
    /// The stream of a provider: OpenAI chat completions
    Chat,
    /// The stream of a provider: OpenAI responses
    Responses,
    /// The stream of a provider: Anthropic messages
    Messages,
}

/// Why a file could not be inspected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InspectError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("there is no profile {name:?}; there are: {known}")]
    Profile { name: String, known: String },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Attempts(#[from] attempts::AttemptsError),
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
}

/// Where items go.
enum Output {
    Table(table::Table),
    Json(json::JsonLines),
}

/// Reads the file piece by piece, however large it is, and writes what is in it. A reader that goes away
/// (`| head`) ends it without an error.
pub(crate) fn run(args: &Args) -> Result<(), InspectError> {
    let done = match &args.file {
        Some(file) => inspect(args, file),
        None => kept(args),
    };
    match done {
        Err(InspectError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

fn kept(args: &Args) -> Result<(), InspectError> {
    let place = Place { config: args.config.clone(), data: args.data.clone(), ..Place::default() };
    let data = place.data()?;
    let text = match (&args.attempts, &args.attempt) {
        (Some(session), _) => attempts::list(&data, session, args.json)?,
        (None, Some(name)) => attempts::one(&data, name, args.json)?,
        // The parser has made sure that one of them is there.
        (None, None) => Safe::default(),
    };
    out::print(&text).map_err(InspectError::Output)
}

fn inspect(args: &Args, file: &Path) -> Result<(), InspectError> {
    let input = Input::open(file)?;
    let format = match args.format {
        Some(format) => format,
        None => detect(&input)?,
    };
    let spoken = match format {
        Format::Sse | Format::Ndjson => None,
        Format::Chat => Some(turnstream_llm::Format::Chat),
        Format::Responses => Some(turnstream_llm::Format::Responses),
        Format::Messages => Some(turnstream_llm::Format::Messages),
    };
    if let Some(format) = spoken {
        let explained = provider::explain(input, format, profile(args)?, args.json)?;
        return out::print(&explained).map_err(InspectError::Output);
    }
    let stdout = Lines::new();
    let output = if args.json {
        Output::Json(json::JsonLines::new(stdout))
    } else {
        Output::Table(table::Table::new(stdout, terminal_width()))
    };
    show(input, format, output)
}

fn profile(args: &Args) -> Result<&'static Profile, InspectError> {
    let Some(name) = &args.profile else { return Ok(&Profile::UNKNOWN) };
    Profile::named(name).ok_or_else(|| {
        let known = Profile::ALL.map(|profile| profile.name).join(", ");
        InspectError::Profile { name: name.clone(), known }
    })
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
    out::width().unwrap_or(160)
}

fn show(mut input: Input, format: Format, mut output: Output) -> Result<(), InspectError> {
    let mut summary = Summary::default();
    let mut write = |item: &Item<'_>| {
        summary.count(item);
        output.item(item).map_err(InspectError::Output)
    };
    let bytes = match format {
        // What a provider sends is an event stream too.
        Format::Sse | Format::Chat | Format::Responses | Format::Messages => {
            show_sse(&mut input, &mut write)?
        }
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

impl Output {
    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        match self {
            Self::Table(table) => table.item(item),
            Self::Json(lines) => lines.item(item),
        }
    }

    /// The counts: below the table, or beside the JSON lines on standard error.
    fn end(self, summary: &Summary, bytes: u64) -> io::Result<()> {
        match self {
            Self::Table(table) => table.end(&escape::text(&format!("{summary}; {bytes} bytes"))),
            Self::Json(lines) => {
                lines.end()?;
                out::note(escape::text(&format!("{summary}; {bytes} bytes")));
                Ok(())
            }
        }
    }
}
