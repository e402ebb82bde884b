//! What is asked, of whom, and for whom.

use crate::head::Format;
use crate::profile::Profile;
use crate::retry::Consumer;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use turnstream_model::attempts::{AttemptName, Begun};
use turnstream_model::id::{SessionId, TurnId};
use turnstream_model::time::Time;

/// A way to a provider.
#[derive(Clone, Debug)]
pub struct Route {
    /// What it is called in the configuration.
    pub name: String,
    /// Where requests go, the whole address.
    pub url: String,
    /// What is spoken there.
    pub format: Format,
    /// What is known of the provider.
    pub profile: Profile,
    /// Headers of every request, such as the key. They are kept nowhere.
    pub headers: Vec<(String, String)>,
}

/// One model call of a turn.
#[derive(Clone, Debug)]
pub struct Call {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// Which model call of the turn, from 1.
    pub step: u32,
    /// How many attempts the turn had before.
    pub attempts_before: u32,
    /// The way to the provider.
    pub route: Route,
    /// The model, for the ledger. The body names it for the provider.
    pub model: String,
    /// The request, in the route's format.
    pub body: Bytes,
    /// Who reads the events.
    pub consumer: Consumer,
}

impl Call {
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

fn hash(body: &[u8]) -> String {
    Sha256::digest(body).iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing into a string does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
