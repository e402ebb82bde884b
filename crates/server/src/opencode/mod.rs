//! opencode's server API over the sessions of all agents: `/opencode`, and the address of its own
//! (`opencode_listen`). `docs/opencode-compat.md` lists every operation.
//!
//! | file | what it does |
//! |---|---|
//! | [`operations`] | which operation of opencode is answered by what |
//! | [`request`], [`answer`] | what clients send with every request, and how they are refused |
//! | [`lookup`], [`session_ids`] | our session for an id of opencode |
//! | [`sessions`], [`messages`], [`prompts`], [`commands`], [`asks`] | sessions, and what is done with them |
//! | [`digest`] | subagents, to-do lists and changes of whole sessions |
//! | [`choice`] | the agent, the mode and the model that a client chose |
//! | [`catalog`] | agents, models, and what a gateway does not have |
//! | [`files`] | files below the directory of a request |
//! | [`feed`], [`rewind`], [`ring`], [`seen`], [`viewer`] | the event streams |
//! | [`web_page`] | opencode's web page, from another server |

mod answer;
mod asks;
mod catalog;
mod choice;
mod commands;
mod digest;
mod feed;
mod files;
mod lookup;
mod messages;
mod operations;
mod prompts;
mod request;
mod rewind;
mod ring;
mod seen;
mod session_ids;
mod sessions;
mod viewer;
mod web_page;

pub(crate) use digest::Digests;
pub(crate) use feed::Feeds;
pub(crate) use operations::{router, router_with_page};
pub(crate) use session_ids::SessionIds;
pub(crate) use web_page::ask_for_password;
