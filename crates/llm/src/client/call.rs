//! A model call: the request, its route, and the turn that it belongs to.

use crate::head::Format;
use crate::profile::Profile;
use crate::retry::Consumer;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use turnstream_model::attempts::{AttemptName, Begun};
use turnstream_model::id::{SessionId, TurnId};
use turnstream_model::time::Time;

/// Where and how a provider is asked.
#[derive(Clone, Debug)]
pub struct Route {
    /// The name in the configuration. It is stored in the ledger.
    pub name: String,
    /// The full URL of the endpoint.
    pub url: String,
    /// The wire format of the endpoint.
    pub format: Format,
    /// What is known about the provider's streams.
    pub profile: Profile,
    /// Headers of every request, such as the API key. They are never stored or logged.
    pub headers: Vec<(String, String)>,
}

/// One model call of a turn. The client may need several attempts for it.
#[derive(Clone, Debug)]
pub struct ModelCall {
    /// The session of the turn.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The number of the model call in the turn, from 1.
    pub step: u32,
    /// The number of attempts that the turn had before.
    pub attempts_before: u32,
    /// The route to the provider.
    pub route: Route,
    /// The model, for the ledger. The body names it for the provider.
    pub model: String,
    /// The request body, in the route's format.
    pub body: Bytes,
    /// The kind of consumer that reads the events.
    pub consumer: Consumer,
}

impl ModelCall {
    pub(super) fn name(&self, number: u32) -> AttemptName {
        AttemptName { session: self.session.clone(), turn: self.turn.clone(), number }
    }

    pub(super) fn begun(&self, number: u32, started: Time) -> Begun {
        Begun {
            name: self.name(number),
            step: self.step,
            route: self.route.name.clone(),
            format: self.route.format.name().to_owned(),
            model: self.model.clone(),
            request: hash(&self.body),
            started,
        }
    }
}

/// The SHA-256 of a request in hexadecimal digits.
fn hash(body: &[u8]) -> String {
    Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}
