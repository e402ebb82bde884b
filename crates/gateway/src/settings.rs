//! Settings of a gateway: time limits, limits of use, roots, redaction and retention.

use crate::clock::ClockSource;
use crate::retention::Retention;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use turnstream_model::event::{Budget, Unattended};
use turnstream_redact::Rules;

/// Settings of a gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sessions may only work below these directories.
    pub roots: Vec<PathBuf>,
    /// How long connecting to an agent may take.
    pub connect: Duration,
    /// How long an agent may take to begin with a prompt.
    pub start: Duration,
    /// How long an agent may be silent in a turn. Waiting for a person does not count, and only activity
    /// renews it.
    pub inactivity: Duration,
    /// How long an agent may take to end a cancelled turn before it is stopped by force.
    pub cancel: Duration,
    /// How long the recovery of a session may take before its open turn ends `lost`.
    pub recovery: Duration,
    /// How long an agent may take to answer a status probe.
    pub status_probe: Duration,
    /// How long an approval or a question may wait for a person. `None` means for ever.
    pub approval: Option<Duration>,
    /// What happens to an approval that waited so long.
    pub on_timeout: OnTimeout,
    /// How long a session may be idle before its keeper ends and its agent is released.
    pub idle: Duration,
    /// How many quiet sessions without a link stay in memory, so that their next request is fast.
    pub quiet_sessions: usize,
    /// How long a search may wait for a free slot before it is refused.
    pub search: Duration,
    /// How long a delete waits until its bytes are erased. After that it answers that they are being erased.
    pub erasure: Duration,
    /// How far a stored fold may be behind while its session is active.
    pub debounce: Duration,
    /// The redaction rules.
    pub redaction: Rules,
    /// What is removed, and when. By default nothing.
    pub retention: Retention,
    /// The clocks by which retention counts ages.
    pub clock: ClockSource,
    /// How much clients may use of the gateway.
    pub limits: Limits,
    /// The caps of new sessions, by the names of their agents.
    pub budgets: BTreeMap<String, Budget>,
    /// How new sessions go on after a limit or a failure, by the names of their agents.
    pub unattended: BTreeMap<String, Unattended>,
}

/// How much clients may use of the gateway. What is beyond a limit is refused, and nothing is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions in all, ended ones included.
    pub sessions: usize,
    /// Links to agents that may be up at the same time, over all sessions.
    pub live_agents: usize,
    /// Prompts of one session that may wait for their turn.
    pub queued_prompts: usize,
    /// Bytes of these prompts together.
    pub queued_bytes: usize,
    /// The greatest lengths of short texts.
    pub texts: TextLengths,
}

/// The greatest lengths of short texts of clients, imported files and agents, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextLengths {
    /// A title. Lists hold one for every session.
    pub title: usize,
    /// The name of a model.
    pub model: usize,
    /// The name of a mode.
    pub mode: usize,
    /// The name of an agent.
    pub agent: usize,
    /// A key for repeated requests.
    pub key: usize,
}

impl Default for TextLengths {
    fn default() -> Self {
        Self { title: 1_000, model: 256, mode: 256, agent: 128, key: 500 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 100_000,
            live_agents: 100,
            queued_prompts: 100,
            queued_bytes: 32 << 20,
            texts: TextLengths::default(),
        }
    }
}

/// What happens to an approval that nobody answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTimeout {
    /// It is rejected, and the turn goes on.
    Reject,
    /// The turn is cancelled.
    Cancel,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            connect: Duration::from_secs(30),
            start: Duration::from_secs(60),
            inactivity: Duration::from_secs(30 * 60),
            cancel: Duration::from_secs(10),
            recovery: Duration::from_secs(60),
            status_probe: Duration::from_secs(10),
            approval: None,
            on_timeout: OnTimeout::Reject,
            idle: Duration::from_secs(10 * 60),
            quiet_sessions: 1_000,
            search: Duration::from_secs(5),
            erasure: Duration::from_secs(5),
            debounce: Duration::from_secs(1),
            redaction: Rules::standard(),
            retention: Retention::default(),
            clock: ClockSource::default(),
            limits: Limits::default(),
            budgets: BTreeMap::new(),
            unattended: BTreeMap::new(),
        }
    }
}
