//! Log lines: which are printed, and how. A field can hold text from outside, so every value is escaped.

use crate::escape::Untrusted;
use crate::out::{self, LogLines};
use serde::{Deserialize, Deserializer};
use std::str::FromStr;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::format;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::{Layer, fmt};

/// The variable that every program in Rust reads. It wins over the configuration.
const VARIABLE: &str = "RUST_LOG";

/// The value of `log`: levels for all and for single targets, for example `info,turnstream_log=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogFilter(String);

/// The value of `log_format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// Lines for people.
    #[default]
    Human,
    /// One JSON object per line.
    Json,
}

/// A filter that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{VARIABLE} = {value:?} cannot be used: {problem}")]
pub(crate) struct FilterError {
    value: String,
    problem: String,
}

impl FromStr for LogFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A lone word that is no level would be read as the name of a target, and silence everything else.
        let is_word = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if text.trim().is_empty() || (is_word && text.parse::<LevelFilter>().is_err()) {
            return Err(explained(&format!("{text:?} is not a level")));
        }
        EnvFilter::builder().parse(text).map_err(|error| explained(&error.to_string()))?;
        Ok(Self(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for LogFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

fn explained(problem: &str) -> String {
    format!(
        "{problem}; give a level (error, warn, info, debug, trace or off), also per target, for example \
         info,turnstream_log=debug"
    )
}

/// The filter of this process: `RUST_LOG`, else the configuration, else a level.
pub(super) fn filter(log: Option<&LogFilter>, level: &'static str) -> Result<EnvFilter, FilterError> {
    let variable = std::env::var(VARIABLE).ok().filter(|value| !value.trim().is_empty());
    match (variable, log) {
        (Some(value), _) => match value.parse() {
            Ok(LogFilter(text)) => Ok(EnvFilter::new(text)),
            Err(problem) => Err(FilterError { value, problem }),
        },
        // Both were parsed before.
        (None, Some(LogFilter(text))) => Ok(EnvFilter::new(text)),
        (None, None) => Ok(EnvFilter::new(level)),
    }
}

/// Lines for people, in colour where standard error is a terminal.
pub(super) fn human(filter: EnvFilter) -> Box<dyn Layer<Registry> + Send + Sync> {
    let fields = format::debug_fn(|writer, field, value| {
        let value = format!("{value:?}");
        match field.name() {
            "message" => write!(writer, "{}", Untrusted(&value)),
            name => write!(writer, "{name}={}", Untrusted(&value)),
        }
    });
    let lines = fmt::layer()
        .with_writer(|| LogLines::Human)
        .with_ansi(out::errors_are_terminal() && out::colours_are_wanted())
        .fmt_fields(fields.delimited(" "));
    lines.with_filter(filter).boxed()
}

/// Lines for programs.
pub(super) fn json(filter: EnvFilter) -> Box<dyn Layer<Registry> + Send + Sync> {
    let lines = fmt::layer().json().flatten_event(true).with_current_span(false);
    lines.with_writer(|| LogLines::Json).with_ansi(false).with_filter(filter).boxed()
}

#[cfg(test)]
mod tests {
    use super::LogFilter;

    #[test]
    fn a_filter_that_cannot_be_used_says_how_one_is_written() {
        for good in ["info", "WARN", "off", "info,turnstream_log=debug", "turnstream_log=trace", "a::b"] {
            good.parse::<LogFilter>().expect(good);
        }
        for bad in ["", "  ", "verbose", "info,turnstream_log=loud", "a=b=c", "[x"] {
            let problem = bad.parse::<LogFilter>().expect_err(bad);
            assert!(problem.contains("for example info,turnstream_log=debug"), "{problem}");
        }
    }
}
