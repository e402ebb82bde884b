//! `[llm.profiles.NAME]`: what is known about the streams of a provider ([llm.md](../../../../docs/llm.md)).

use super::{ConfigError, Place, file};
use serde::Deserialize;
use std::collections::BTreeMap;
use turnstream_llm::{Profile, ProfileError, ProfileSettings};

/// `[llm]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct LlmTable {
    profiles: BTreeMap<String, ProfileSettings>,
}

/// What a command that reads streams needs of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LlmKeys {
    llm: LlmTable,
}

impl LlmTable {
    /// The configured profiles, checked.
    pub(super) fn profiles(self) -> Result<Vec<Profile>, ProfileError> {
        self.profiles.into_iter().map(|(name, table)| table.profile(&name)).collect()
    }
}

impl Place {
    /// The profiles of the configuration file.
    pub(crate) fn profiles(&self) -> Result<Vec<Profile>, ConfigError> {
        let keys: LlmKeys = file::read(self.file().as_deref())?;
        Ok(keys.llm.profiles()?)
    }
}
