//! Who sent a request.

use crate::access::OWNER;
use crate::app::App;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::convert::Infallible;
use std::sync::Arc;
use turnstream_gateway::{Actor, Gateway};

/// The client behind a request: the name of its token. `None` if the gateway needs no token.
///
/// The access check puts it into the extensions of every request that passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller(pub(crate) Option<Arc<str>>);

impl Caller {
    /// Whether the gateway's own token was sent. Everybody is the owner of a gateway that needs no token.
    pub(crate) fn is_owner(&self) -> bool {
        self.0.as_deref().is_none_or(|name| name == OWNER)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// The gateway for a route that changes something: the events that it makes name the caller.
pub(crate) struct CallersGateway(pub(crate) Gateway);

impl FromRequestParts<Arc<App>> for CallersGateway {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Infallible> {
        let Caller(name) = Caller::from_request_parts(parts, app).await?;
        Ok(Self(app.gateway.on_behalf_of(name.as_deref().and_then(Actor::cleaned))))
    }
}
