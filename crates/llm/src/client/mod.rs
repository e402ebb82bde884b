//! Asks providers: one POST per attempt, one owner of retries, every attempt in the ledger before it leaves.

mod address;
mod attempt;
mod call;
mod connect;
mod handshake;
mod hold;
mod keys;
mod post;
mod row;
mod run;
mod running;
mod signals;
mod timers;
mod trust;
mod tunnel;
mod waiting;

pub use call::{Call, Route};
pub use running::{Canceller, Ending, Running, Told, Wait};
pub use signals::Translator;
pub use timers::Clocks;

use crate::retry::{Policy, Retries};
use crate::wait::Clock;
use connect::Connector;
use std::path::PathBuf;
use std::sync::Arc;
use turnstream_model::attempts::{Ledger, Parked, Unkept, Waits};
use turnstream_redact::Rules;

/// Where attempts and waits are kept, what time it is, and what is secret.
#[derive(Clone)]
pub struct Keeping {
    /// The ledger.
    pub ledger: Arc<dyn Ledger>,
    /// The parked waits.
    pub waits: Arc<dyn Waits>,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// What must not land on the disk.
    pub redact: Arc<Rules>,
}

/// How a client behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long each part of a request may take.
    pub clocks: Clocks,
    /// What is done about failures.
    pub policy: Policy,
    /// More bytes than this are no answer. Clocks do not end one whose bytes come faster than they are read.
    pub most_bytes: u64,
    /// A PEM file of certificate authorities that are believed besides the system's, such as a company's own. Those of the
    /// system are replaced by the variables `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    pub authorities: Option<PathBuf>,
}

impl Default for Settings {
    /// The longest answers of today's models are 2 MiB of text, which chat completions wrap in a hundred times as much.
    fn default() -> Self {
        let (clocks, policy) = (Clocks::default(), Policy::default());
        Self { clocks, policy, most_bytes: 512 << 20, authorities: None }
    }
}

/// The one who asks. Clones share what they were set up with.
#[derive(Clone)]
pub struct Client {
    connector: Arc<Connector>,
    settings: Settings,
    keeping: Keeping,
}

/// Why there is no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoClient {
    /// The file of certificate authorities cannot be used.
    #[error("no certificate authorities in {}: {problem}; give a PEM file, or none to believe those of the system", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

impl Client {
    /// A client that retries, redirects and unpacks nothing by itself, and never uses a connection again: a repeated POST is
    /// another completion, billed again.
    pub fn new(settings: Settings, keeping: Keeping) -> Result<Self, NoClient> {
        let connector = Connector::new(settings.clocks.connect, settings.authorities.as_deref())?;
        Ok(Self { connector: Arc::new(connector), settings, keeping })
    }

    /// Starts a model call of a turn whose retries have used up nothing.
    pub fn start(&self, call: Call) -> Running {
        self.go_on(call, Retries::new(self.settings.policy.clone()))
    }

    /// Starts a model call of a turn that goes on: give it what [`Told::Ended`] of the call before said was spent.
    pub fn go_on(&self, call: Call, retries: Retries) -> Running {
        run::start(self.clone(), call, retries, None)
    }

    /// Takes up a wait that was parked before a restart. The call is the one that was parked, made again by whoever knows
    /// the conversation: requests are not stored.
    pub fn resume(&self, call: Call, parked: Parked) -> Running {
        let retries = Retries::resume(self.settings.policy.clone(), parked.spent.clone());
        run::start(self.clone(), call, retries, Some(parked))
    }

    /// Takes up all waits that are parked. `call` makes the request of each again; one for which it has none stays parked.
    pub async fn resume_all(
        &self,
        mut call: impl FnMut(&Parked) -> Option<Call>,
    ) -> Result<Vec<(Parked, Running)>, Unkept> {
        let parked = self.parked().await?;
        let found = parked.into_iter().filter_map(|parked| Some((call(&parked)?, parked)));
        Ok(found.map(|(call, parked)| (parked.clone(), self.resume(call, parked))).collect())
    }

    /// The waits that are parked, the soonest first.
    pub async fn parked(&self) -> Result<Vec<Parked>, Unkept> {
        self.keeping.waits.parked().await
    }
}
