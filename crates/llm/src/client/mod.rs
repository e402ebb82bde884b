//! A client that asks providers: one POST per attempt, one owner of retries, a ledger row before each
//! request.
//!
//! [`Client::start`] runs one model call in a task of its own. The call reports [`CallEvent`]s until
//! [`CallEvent::Ended`]:
//!
//! ```no_run
//! # use turnstream_llm::client::{CallEvent, CallOutcome, Client, ModelCall};
//! # use turnstream_llm::StreamEvent;
//! # async fn example(client: &Client, call: ModelCall) {
//! let mut running = client.start(call);
//! while let Some(event) = running.next().await {
//!     match event {
//!         CallEvent::Stream { event: StreamEvent::Text { text, .. }, .. } => print!("{text}"),
//!         CallEvent::Superseded { items, .. } => println!("(take back {items:?})"),
//!         CallEvent::Ended { outcome, .. } => match *outcome {
//!             CallOutcome::Complete(outcome) => println!("{} calls to run", outcome.runnable().len()),
//!             CallOutcome::Failed { failure, .. } => println!("{}: {}", failure.class, failure.message),
//!             other => println!("{other:?}"),
//!         },
//!         _ => {}
//!     }
//! }
//! # }
//! ```
//!
//! # Promises
//!
//! - The row of an attempt is durable before its request is sent. If it cannot be written, nothing is sent.
//! - The client repeats, redirects and decompresses nothing below this layer. One attempt is one POST on a
//!   connection of its own.
//! - A wait of more than a minute is stored and continues after a restart ([`Client::resume`]).
//! - Keys of a route are removed from everything that is reported, logged or stored.
//!
//! # Diagnostics
//!
//! Each attempt has a span `attempt` with `session`, `turn`, `attempt`, `provider`, `model` and `status`. A
//! failed attempt is one line at `warn` with its class and the next step. Text of a model or a provider is
//! logged at `debug` only, redacted.

mod address;
mod answer_headers;
mod attempt;
mod call;
mod call_event;
mod connect;
mod delivery;
mod diagnostics;
mod handshake;
mod ledger_row;
mod pool;
mod post;
mod run;
mod running;
mod secrets;
mod sender;
mod signals;
mod timers;
mod trust;
mod tunnel;
mod waiting;

pub use answer_headers::stored as stored_headers;
pub use call::{ModelCall, Route};
pub use call_event::{CallEvent, CallOutcome, Wait};
pub use ledger_row::{AttemptReport, ended as ledger_row};
pub use post::{HttpClient, HttpMethod, HttpRequest, HttpResponse};
pub use running::{Canceller, RunningCall};
pub use secrets::RouteSecrets;
pub use signals::Translator;
pub use timers::Timeouts;
pub use trust::AuthoritiesError;

use crate::classify::{Failure, Source};
use crate::retry::{Policy, Retries};
use crate::wait::Clock;
use connect::Connector;
use std::path::PathBuf;
use std::sync::Arc;
use turnstream_model::attempts::{Ledger, Parked, Unkept, Waits};
use turnstream_model::event::ErrorClass;
use turnstream_redact::Rules;

/// What a client needs from its surroundings: storage, clocks and redaction rules.
#[derive(Clone)]
pub struct Environment {
    /// The ledger of attempts.
    pub ledger: Arc<dyn Ledger>,
    /// The stored waits.
    pub waits: Arc<dyn Waits>,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Rules for what must not be stored or logged.
    pub redact: Arc<Rules>,
}

/// How a client behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The timeouts of one attempt.
    pub timeouts: Timeouts,
    /// The retry policy.
    pub policy: Policy,
    /// The largest body of an answer, in bytes. Timeouts do not end a body that arrives faster than it is
    /// read.
    pub most_bytes: u64,
    /// A PEM file with additional certificate authorities, such as a company's own.
    ///
    /// The environment variables `SSL_CERT_FILE` and `SSL_CERT_DIR` replace the system's authorities.
    pub authorities: Option<PathBuf>,
}

impl Default for Settings {
    /// 512 MiB: the longest answers have 2 MiB of text, and chat completions wrap it in a hundred times as
    /// much.
    fn default() -> Self {
        let (timeouts, policy) = (Timeouts::default(), Policy::default());
        Self { timeouts, policy, most_bytes: 512 << 20, authorities: None }
    }
}

/// A client for model providers. Clones share its configuration and certificates.
#[derive(Clone)]
pub struct Client {
    connector: Arc<Connector>,
    settings: Settings,
    environment: Environment,
}

/// The reason why a client could not be created.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file of certificate authorities cannot be used.
    #[error(
        "cannot use the certificate authorities in {}; give a PEM file, or none to use the system's only",
        path.display()
    )]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: AuthoritiesError,
    },
}

/// Checks that a request can be sent to this URL: scheme, host and port.
///
/// # Errors
///
/// A [`Failure`] whose message says what is wrong. It never repeats the URL, which may contain a key.
pub fn check_url(url: &str) -> Result<(), Failure> {
    address::Address::parse(url).map(|_| ())
}

impl Client {
    /// Creates a client. It opens no connection yet.
    ///
    /// # Errors
    ///
    /// [`ClientError::Authorities`] if [`Settings::authorities`] cannot be read or has no certificate.
    pub fn new(settings: Settings, environment: Environment) -> Result<Self, ClientError> {
        let connector = Connector::new(settings.timeouts.connect, settings.authorities.as_deref())?;
        Ok(Self { connector: Arc::new(connector), settings, environment })
    }

    /// Fetches a small document of a provider, such as its list of models. It is asked once, and no attempt
    /// is recorded. A body of more than `most` bytes is cut.
    ///
    /// # Errors
    ///
    /// A [`Failure`] if there is no answer, or one with another status than 2xx.
    pub async fn get(
        &self,
        url: &str,
        headers: &[(String, String)],
        most: usize,
    ) -> Result<Vec<u8>, Failure> {
        let mut response = post::get(&self.connector, url, headers).await?;
        if !(200..300).contains(&response.status) {
            let message = format!("the provider answers with status {}", response.status);
            return Err(Failure::new(ErrorClass::ProviderError, Source::Status, message));
        }
        let mut body = Vec::new();
        while let Some(bytes) = response.chunk().await? {
            body.extend_from_slice(&bytes[..bytes.len().min(most - body.len())]);
            if body.len() == most {
                break;
            }
        }
        Ok(body)
    }

    /// Starts the first model call of a turn.
    pub fn start(&self, call: ModelCall) -> RunningCall {
        self.continue_turn(call, Retries::new(self.settings.policy.clone()))
    }

    /// Starts a later model call of a turn.
    ///
    /// `retries` continues the budget of the turn: make it from `spent` of the last [`CallEvent::Ended`].
    pub fn continue_turn(&self, call: ModelCall, retries: Retries) -> RunningCall {
        run::start(self.clone(), call, retries, None)
    }

    /// Continues a stored wait after a restart.
    ///
    /// Requests are not stored. The caller, who knows the conversation, makes the same `call` again.
    pub fn resume(&self, call: ModelCall, parked: Parked) -> RunningCall {
        let retries = Retries::resume(self.settings.policy.clone(), parked.spent.clone());
        run::start(self.clone(), call, retries, Some(parked))
    }

    /// Continues all stored waits. `call` makes the request of each wait; a wait without a request stays
    /// stored.
    ///
    /// # Errors
    ///
    /// [`Unkept`] if the stored waits cannot be read.
    pub async fn resume_all(
        &self,
        mut call: impl FnMut(&Parked) -> Option<ModelCall>,
    ) -> Result<Vec<(Parked, RunningCall)>, Unkept> {
        let parked = self.parked().await?;
        let found = parked.into_iter().filter_map(|parked| Some((call(&parked)?, parked)));
        Ok(found.map(|(call, parked)| (parked.clone(), self.resume(call, parked))).collect())
    }

    /// The stored waits, soonest first.
    ///
    /// # Errors
    ///
    /// [`Unkept`] if they cannot be read.
    pub async fn parked(&self) -> Result<Vec<Parked>, Unkept> {
        self.environment.waits.parked().await
    }
}
