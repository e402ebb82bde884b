//! What the APIs for chat clients (`/ai`, `/ag-ui`) have in common: a session by an id of the client's own,
//! and one turn as one response.
//!
//! | file | what it does |
//! |---|---|
//! | [`sessions`] | the session for an id of ours or for a client's key, made if there is none |
//! | [`turn_state`] | a session's state with one whole turn in it, and what is open there |
//! | [`response`] | one turn as an event stream, until it ends or waits for a person |
//! | [`stop`] | ends what runs |
//! | [`history`] | the newest part of a session, read in pages |

mod history;
mod response;
mod sessions;
mod stop;
mod turn_state;

pub(crate) use history::{FEWEST, History, MOST, has_turn};
pub(crate) use response::{Progress, TurnResponse, TurnWriter};
pub(crate) use sessions::{NewChat, find, find_or_create, is_session_id};
pub(crate) use stop::{stop, stop_or_withdraw};
pub(crate) use turn_state::{Wanted, is_waiting, turn_of};
