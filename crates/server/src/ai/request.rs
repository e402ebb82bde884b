//! What clients send.

use super::answer::Failure;
use crate::app::App;
use crate::body::Strict;
use crate::params::Params;
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Request};
use axum::http::request::Parts;
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use turnstream_dialects::ai_sdk::Profile;

/// The version of the SDK that a page uses: `?v=7`, or `/ai/v7`.
pub(super) struct Version(pub(super) Profile);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionQuery {
    v: Option<u8>,
}

impl FromRequestParts<Arc<App>> for Version {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let Params(VersionQuery { v }) = Params::from_request_parts(parts, app).await?;
        let path = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
        let in_path = path.strip_prefix("/ai/v").and_then(|rest| rest.split('/').next()?.parse().ok());
        let Some(version) = v.or(in_path) else { return Ok(Self(Profile::default())) };
        let profile = Profile::of_version(version);
        let unknown =
            || Failure::bad(format!("v={version} is no version of the AI SDK that is known: 5, 6, 7"));
        profile.map(Self).ok_or_else(unknown)
    }
}

/// What a chat sends. Members that are not known are the page's own.
#[derive(Deserialize)]
pub(super) struct Send {
    pub(super) id: String,
    /// All messages of the chat, the new one last.
    #[serde(default)]
    messages: Vec<Value>,
    /// Or only the new one.
    message: Option<Value>,
    trigger: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) model: Option<String>,
}

impl Send {
    /// The message that is new, if the request is for one.
    pub(super) fn last(&mut self) -> Result<Value, Failure> {
        match self.trigger.as_deref() {
            None | Some("submit-message") => {}
            Some("regenerate-message") => {
                return Err(Failure::refused(
                    "An answer cannot be generated again: the agent has already acted on the message. Send a \
                     new message.",
                ));
            }
            Some(other) => return Err(Failure::bad(format!("the trigger {other:?} is not known"))),
        }
        let last = self.message.take().or_else(|| self.messages.pop());
        last.ok_or_else(|| Failure::bad("the body has neither `messages` nor a `message`"))
    }
}

/// A JSON body whose unknown members are ignored.
pub(super) struct Body<T>(pub(super) T);

impl<T: serde::de::DeserializeOwned> FromRequest<Arc<App>> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Failure> {
        Ok(Self(Strict::from_request(request, app).await?.0))
    }
}
