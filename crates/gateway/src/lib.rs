//! The running system without any HTTP: one keeper per live session, a durable prompt queue, approvals, recovery.
//!
//! A [`Gateway`] owns a log and the agents. Whatever a client asks of a session goes to the session's keeper, the one
//! task that holds its appender and its link to the agent.

mod board;
mod closing;
mod create;
mod delete;
mod error;
mod export;
mod gateway;
mod history;
mod import;
mod keeper;
mod ledger;
mod listing;
mod redactor;
mod repeat;
mod request;
mod retention;
mod search;
mod settings;
mod start;
mod tally;
mod trouble;

pub use board::{Board, BoardReader, Entry, Stage};
pub use create::NewSession;
pub use delete::Deleted;
pub use error::{OpenError, RequestError};
pub use export::Export;
pub use gateway::Gateway;
pub use import::{BadFile, Fault, ImportAs, ImportError, Spool};
pub use listing::{Listed, ListedSession, Listing, Order};
pub use request::{AnswerQuestion, Change, NewPrompt, ResolveApproval, SessionInfo};
pub use retention::{Retention, Round};
pub use settings::{OnTimeout, Settings};
pub use tally::Tally;
pub use turnstream_log::{EventsPage, EventsQuery, ItemsPage, ItemsQuery};
pub use turnstream_log::{Hit, Page, Part, Query, Subject};
