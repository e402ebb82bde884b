//! `turnstream inspect`: shows a saved stream with byte offsets, explains a provider's stream, and shows
//! recorded model calls.

mod attempts;
mod item;
mod json;
mod ndjson;
mod provider;
mod report;
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

/// Show what is in a saved stream: every event, comment and anomaly, with byte offsets
///
/// Reads SSE streams and NDJSON files. With the format of a provider it explains the stream. With --attempts
/// or --attempt it shows recorded model calls.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The saved stream; - reads standard input
    #[arg(required_unless_present_any = ["attempts", "attempt"], conflicts_with_all = ["attempts", "attempt"])]
    file: Option<PathBuf>,
    /// The format of the file [default: detected]. The format of a provider explains the stream: where each
    /// completion ended, what was lost, and what can be trusted
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The profile of the provider, built in or of the configuration [default: unknown]
    #[arg(long, value_name = "NAME", requires = "file")]
    profile: Option<String>,
    /// List the model calls of this session, instead of reading a file
    #[arg(long, value_name = "SESSION", conflicts_with = "attempt")]
    attempts: Option<String>,
    /// Show one model call and its recorded bytes, instead of reading a file
    #[arg(long, value_name = "SESSION/TURN/NUMBER")]
    attempt: Option<AttemptName>,
    /// With --attempt: print a report for the provider, without prompts, answers and keys
    #[arg(long, requires = "attempt", conflicts_with_all = ["attempts", "file", "json"])]
    report: bool,
    /// The configuration file, which may name the data directory
    #[arg(long, value_name = "FILE", env = "TURNSTREAM_CONFIG")]
    config: Option<PathBuf>,
    /// The data directory
    #[arg(long, value_name = "DIR", env = "TURNSTREAM_DATA")]
    data: Option<PathBuf>,
    /// Print one JSON object per line, with all data, instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Server-sent events
    Sse,
    /// One JSON value per line
    Ndjson,
    /// A provider's stream: OpenAI chat completions
    Chat,
    /// A provider's stream: OpenAI responses
    Responses,
    /// A provider's stream: Anthropic messages
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

/// The output of items.
enum Output {
    Table(table::Table),
    Json(json::JsonLines),
}

/// Reads the file piece by piece and prints what is in it. It is no error if the reader of standard output
/// closes it (`| head`).
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
        (None, Some(name)) if args.report => report::of(&attempts::row(&data, name)?),
        (None, Some(name)) => attempts::one(&data, name, args.json)?,
        // clap requires one of them.
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
        let explained = provider::explain(input, format, &profile(args)?, args.json)?;
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

/// A built-in profile, or one of the configuration.
fn profile(args: &Args) -> Result<Profile, InspectError> {
    let Some(name) = &args.profile else { return Ok(Profile::UNKNOWN) };
    if let Some(built_in) = Profile::named(name) {
        return Ok(built_in.clone());
    }
    let place = Place { config: args.config.clone(), data: args.data.clone(), ..Place::default() };
    let configured = place.profiles()?;
    let known = Profile::ALL.into_iter().chain(&configured).map(|profile| profile.name.as_ref());
    let known = known.collect::<Vec<_>>().join(", ");
    let found = configured.into_iter().find(|profile| profile.name == *name);
    found.ok_or_else(|| InspectError::Profile { name: name.clone(), known })
}

/// Detects NDJSON by the first byte that is not white space: no SSE line starts with a bracket.
fn detect(input: &Input) -> Result<Format, InputError> {
    let otherwise = "If it is SSE or NDJSON all the same, say which: --format sse or --format ndjson";
    let beginning = input.text_beginning(otherwise)?;
    match beginning.trim_ascii_start().first() {
        Some(b'{' | b'[') => Ok(Format::Ndjson),
        Some(_) | None => Ok(Format::Sse),
    }
}

/// The width of the terminal; without one, a width that fits most places.
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
        // The stream of a provider is an event stream too.
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

    /// Prints the counts: below the table, or on standard error beside JSON lines.
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
