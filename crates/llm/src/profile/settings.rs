//! Profiles from a configuration: `[llm.profiles.NAME]`.

use super::{
    CallIndex, ChunkId, Constancy, DoneMarker, EmptyArguments, Opening, Pings, Profile, Sequence, Throttle,
    Word,
};
use serde::Deserialize;
use std::borrow::Cow;

/// The table of one profile. Members that are left out are those of the profile it is based on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileSettings {
    /// The built-in profile from which the others are taken; `unknown` if it is left out.
    pub based_on: Option<String>,
    /// See [`Profile::id`].
    pub id: Option<ChunkId>,
    /// See [`Profile::created`].
    pub created: Option<Constancy>,
    /// See [`Profile::fingerprint`].
    pub fingerprint: Option<Constancy>,
    /// See [`Profile::opening`].
    pub opening: Option<Opening>,
    /// See [`Profile::done`].
    pub done: Option<DoneMarker>,
    /// See [`Profile::call_index`].
    pub call_index: Option<CallIndex>,
    /// See [`Profile::empty_arguments`].
    pub empty_arguments: Option<EmptyArguments>,
    /// See [`Profile::sequence`].
    pub sequence: Option<Sequence>,
    /// See [`Profile::response_id`].
    pub response_id: Option<Constancy>,
    /// See [`Profile::item_id`].
    pub item_id: Option<Constancy>,
    /// See [`Profile::pings`].
    pub pings: Option<Pings>,
    /// See [`Profile::error_finishes`].
    pub error_finishes: Option<Vec<Word>>,
    /// See [`Profile::throttles`].
    pub throttles: Option<Vec<Throttle>>,
    /// See [`Profile::overflows`].
    pub overflows: Option<Vec<Word>>,
}

/// A profile's table that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// A built-in profile has this name.
    #[error(
        "[llm.profiles.{name}]: the profile {name:?} is built in; choose another name, and based_on = {name:?}"
    )]
    BuiltIn {
        /// The name.
        name: String,
    },
    /// `based_on` names no built-in profile.
    #[error("[llm.profiles.{name}]: based_on = {base:?} is not a built-in profile; there are {known}")]
    UnknownBase {
        /// The name of the table.
        name: String,
        /// The unknown name.
        base: String,
        /// The built-in names.
        known: String,
    },
    /// A text that every message contains.
    #[error("[llm.profiles.{name}]: {member} has an empty text, which every message contains; remove it")]
    EmptyText {
        /// The name of the table.
        name: String,
        /// The member of the table.
        member: &'static str,
    },
}

impl ProfileSettings {
    /// The profile that this table describes.
    ///
    /// # Errors
    ///
    /// If the name is built in, the base is unknown, or a text to search for is empty.
    pub fn profile(self, name: &str) -> Result<Profile, ProfileError> {
        if Profile::named(name).is_some() {
            return Err(ProfileError::BuiltIn { name: name.to_owned() });
        }
        let base = match &self.based_on {
            None => Profile::UNKNOWN,
            Some(base) => Profile::named(base).cloned().ok_or_else(|| ProfileError::UnknownBase {
                name: name.to_owned(),
                base: base.clone(),
                known: Profile::ALL.map(|known| known.name.as_ref()).join(", "),
            })?,
        };
        let empty = |member| Err(ProfileError::EmptyText { name: name.to_owned(), member });
        if self.overflows.iter().flatten().any(|text| text.trim().is_empty()) {
            return empty("overflows");
        }
        if self.throttles.iter().flatten().any(|throttle| throttle.message_contains.trim().is_empty()) {
            return empty("throttles");
        }
        Ok(Profile {
            name: Cow::Owned(name.to_owned()),
            id: self.id.unwrap_or(base.id),
            created: self.created.unwrap_or(base.created),
            fingerprint: self.fingerprint.unwrap_or(base.fingerprint),
            opening: self.opening.unwrap_or(base.opening),
            done: self.done.unwrap_or(base.done),
            call_index: self.call_index.unwrap_or(base.call_index),
            empty_arguments: self.empty_arguments.unwrap_or(base.empty_arguments),
            sequence: self.sequence.unwrap_or(base.sequence),
            response_id: self.response_id.unwrap_or(base.response_id),
            item_id: self.item_id.unwrap_or(base.item_id),
            pings: self.pings.unwrap_or(base.pings),
            error_finishes: self.error_finishes.map_or(base.error_finishes, Cow::Owned),
            throttles: self.throttles.map_or(base.throttles, Cow::Owned),
            overflows: self.overflows.map_or(base.overflows, Cow::Owned),
        })
    }
}
