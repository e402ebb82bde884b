//! Log lines on standard error, and the export of turn spans. Standard output never gets a log line.

mod lines;
mod otlp;
mod spans;

pub(crate) use lines::{FilterError, LogFilter, LogFormat};
pub(crate) use otlp::{Collector, CollectorError};

use crate::config::Config;
use tokio::time::Instant;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt;

/// What a command prints that does not serve. Progress and results have their own lines there.
const CLIENT_LEVEL: &str = "warn";

/// What `serve` prints.
const SERVE_LEVEL: &str = "info";

/// Why diagnostics cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiagnosticsError {
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error(transparent)]
    Collector(#[from] CollectorError),
}

/// The diagnostics of this process. [`Diagnostics::end`] sends the spans that are still queued.
#[must_use = "spans that are queued are lost unless it is ended"]
#[derive(Default)]
pub(crate) struct Diagnostics {
    exporter: Option<otlp::Exporter>,
}

impl Diagnostics {
    /// For `serve`: level, format and collector come from the configuration.
    pub(crate) fn of_server(config: &Config) -> Result<Self, DiagnosticsError> {
        Self::start(config.log.as_ref(), SERVE_LEVEL, config.log_format, config.otlp.as_ref())
    }

    /// For a command that hosts a gateway while it runs. A person reads its output, so `log` and `log_format`
    /// do not apply. Turns are exported as those of `serve` are.
    pub(crate) fn of_host(config: &Config) -> Result<Self, DiagnosticsError> {
        Self::start(None, CLIENT_LEVEL, LogFormat::Human, config.otlp.as_ref())
    }

    /// For a command that talks to a gateway in another process.
    pub(crate) fn of_client() -> Result<Self, DiagnosticsError> {
        Self::start(None, CLIENT_LEVEL, LogFormat::Human, None)
    }

    fn start(
        log: Option<&LogFilter>,
        level: &'static str,
        format: LogFormat,
        collector: Option<&Collector>,
    ) -> Result<Self, DiagnosticsError> {
        let filter = lines::filter(log, level)?;
        let (exporter, spans) = match collector {
            Some(collector) => {
                let (exporter, layer) = otlp::start(collector)?;
                (Some(exporter), Some(layer))
            }
            None => (None, None),
        };
        let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
            LogFormat::Human => lines::human(filter),
            LogFormat::Json => lines::json(filter),
        };
        let layers: Vec<_> = std::iter::once(lines).chain(spans).collect();
        // A second call in one process keeps the first subscriber.
        if let Err(error) = Registry::default().with(layers).try_init() {
            tracing::debug!(error = %error, "log lines are already set up");
        }
        Ok(Self { exporter })
    }

    /// Sends what is queued to the collector. Takes at most [`otlp::FLUSH_DEADLINE`].
    pub(crate) async fn end(self) {
        self.end_by(Instant::now() + otlp::FLUSH_DEADLINE).await;
    }

    /// The same for a process that must have ended by then.
    pub(crate) async fn end_by(self, by: Instant) {
        if let Some(exporter) = self.exporter {
            exporter.end(by).await;
        }
    }
}
