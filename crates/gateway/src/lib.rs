//! The gateway without HTTP: one keeper per live session, a durable prompt queue, approvals, recovery.
//!
//! A [`Gateway`] owns a log and the agents. Requests for a session go to its keeper: the one task that owns
//! the session's appender and its link to the agent.

mod budget;
mod clock;
mod closing;
mod content_types;
mod create;
mod delete;
mod disk_failure;
mod disk_use;
mod error;
mod event_counts;
mod export;
mod files;
mod gateway;
mod hand_over;
mod history;
mod idempotency;
mod import;
mod keeper;
mod key_ids;
mod last_activity;
mod limits;
mod listing;
mod live_agents;
mod mcp_store;
mod measures;
mod provider_requests;
mod redactor;
mod refusals;
mod request;
mod retention;
mod search;
mod session_states;
mod settings;
mod short_texts;
mod start;
mod transcript;
mod unattended;
mod working_directory;

pub use budget::{BudgetChange, CapsChange};
pub use clock::{ClockSource, FakeClock};
pub use create::NewSession;
pub use delete::Deleted;
pub use disk_use::DiskUse;
pub use error::{OpenError, RequestError, SharedError};
pub use event_counts::EventCounts;
pub use export::Export;
pub use files::{EntryKind, FileEntry, FileQuery};
pub use gateway::Gateway;
pub use import::{BadFile, Fault, ImportAs, ImportError, ImportedSession, Spool};
pub use key_ids::IdSecretError;
pub use limits::Limit;
pub use listing::{Listed, ListedSession, Listing, Order};
pub use live_agents::LiveAgentCounts;
pub use refusals::{Refusals, RefusingLimit};
pub use request::{AnswerQuestion, Change, NewPrompt, ResolveApproval, SessionInfo};
pub use retention::{Retention, Round};
pub use session_states::{SessionEntry, SessionStates, SessionWatcher, Stage};
pub use settings::{Limits, OnTimeout, Settings, TextLengths};
pub use turnstream_log::{EventsPage, EventsQuery, ItemsPage, ItemsQuery};
pub use turnstream_log::{Hit, Page, Part, Query, Subject};
pub use turnstream_model::event::Actor;
pub use unattended::UnattendedChange;
