//! `pass_env`: the names of variables that an agent gets. A name may end with `*`.

use serde::{Deserialize, Deserializer};
use std::ffi::OsString;
use turnstream_agents::program::{KnownAgent, passed};

/// The names of a configuration.
#[derive(Clone, Debug)]
pub(super) struct PassEnv(Vec<String>);

/// The variables that an agent gets of the gateway. `names` is what the configuration says; without it, the
/// agent gets those of its kind.
pub(super) fn variables(known: &KnownAgent, names: Option<PassEnv>) -> Vec<(OsString, OsString)> {
    let withheld = known.withheld;
    match names {
        Some(PassEnv(names)) => passed(&names, withheld, std::env::vars_os()),
        None => passed(known.pass_env, withheld, std::env::vars_os()),
    }
}

impl<'de> Deserialize<'de> for PassEnv {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        let is_wrong = |name: &&String| {
            let begin = name.strip_suffix('*').unwrap_or(name.as_str());
            begin.is_empty() || begin.contains(['*', '=', '\0'])
        };
        match names.iter().find(is_wrong) {
            None => Ok(Self(names)),
            Some(wrong) => Err(serde::de::Error::custom(format!(
                "{wrong:?} names no variable; write a name like ANTHROPIC_API_KEY, or a beginning and one * like \
                 ANTHROPIC_*"
            ))),
        }
    }
}
