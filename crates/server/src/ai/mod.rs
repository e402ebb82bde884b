//! The AI SDK's chat API over the sessions of all agents: `/ai`, for `useChat` and its relatives.
//! `docs/ai-sdk.md` describes it for those who build a page.
//!
//! | file | what it does |
//! |---|---|
//! | [`request`] | what clients send: the version of the SDK, and the body of a message |
//! | [`answer`] | how they are refused: in words, which pages show to people |
//! | [`chats`] | the routes: a message or an answer, the stream of a turn, the messages, a stop |
//! | [`replies`] | answers to approvals and questions, in the message that comes back |
//! | [`content`] | the parts of a user's message as the content of a prompt |
//! | [`writer`] | one turn in the words of the SDK |

mod answer;
mod chats;
mod content;
mod replies;
mod request;
mod writer;

use crate::app::App;
use axum::Router;
use axum::routing::{get, post};
use std::sync::Arc;

/// The routes, without a version and with one. Older clients put the id of a chat behind the address, so
/// the version cannot always be in the query.
pub(crate) fn routes(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    ["/ai", "/ai/v5", "/ai/v6", "/ai/v7"].into_iter().fold(routes, |routes, base| {
        routes
            .route(base, post(chats::send))
            .route(&format!("{base}/{{id}}/stream"), get(chats::stream))
            .route(&format!("{base}/{{id}}/stop"), post(chats::stop))
            .route(&format!("{base}/{{id}}/messages"), get(chats::messages))
    })
}
