//! `[agents.NAME]`: which agents there are, and how each is reached.

use super::file::Span;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::path::PathBuf;
use turnstream_agents::demo::DemoScript;
use turnstream_agents::opencode::check_url;

/// One `[agents.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(try_from = "AgentKeys")]
pub(crate) enum AgentTable {
    Scripted(Scripted),
    Opencode(Box<Opencode>),
}

/// opencode, started here or found at an address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opencode {
    /// The program to start; `opencode` on the path if nothing is said.
    pub(crate) command: Option<PathBuf>,
    /// Variables of this process that it gets too, for example keys of providers.
    pub(crate) pass_env: Vec<String>,
    /// Variables it gets.
    pub(crate) env: BTreeMap<String, String>,
    /// The address of a server that runs already; then nothing is started.
    pub(crate) url: Option<String>,
    /// The variable of this process that holds that server's password.
    pub(crate) password_env: Option<String>,
    /// The file that holds it.
    pub(crate) password_file: Option<PathBuf>,
    /// That server's user name, if it has another than `opencode`.
    pub(crate) user: Option<String>,
    /// What one turn may take.
    pub(crate) budget: BudgetTable,
}

/// `[agents.NAME.budget]`: limits of one turn.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct BudgetTable {
    /// Model calls.
    #[serde(default, deserialize_with = "limit")]
    pub(crate) steps: Option<u32>,
    /// Time.
    pub(crate) time: Option<Span>,
    /// Tokens.
    #[serde(default, deserialize_with = "limit")]
    pub(crate) tokens: Option<u64>,
    /// Dollars.
    #[serde(default, deserialize_with = "limit")]
    pub(crate) cost: Option<f64>,
}

/// An agent that plays scripts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripted {
    /// The delay between pieces of text.
    pub(crate) pace_ms: Option<u64>,
    /// The script that is played for prompts that are none.
    pub(crate) script: Option<DemoScript>,
}

/// The keys of all kinds in one table. A tagged enum would read the values before it knows their types, and
/// could not tell the line of one that does not fit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct AgentKeys {
    kind: Kind,
    pace_ms: Option<u64>,
    #[serde(default, deserialize_with = "script")]
    script: Option<DemoScript>,
    command: Option<PathBuf>,
    pass_env: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    #[serde(default, deserialize_with = "url")]
    url: Option<String>,
    password_env: Option<String>,
    password_file: Option<PathBuf>,
    user: Option<String>,
    budget: Option<BudgetTable>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Scripted,
    Opencode,
}

impl AgentKeys {
    /// The kinds of agents that have a key, for every key that is there.
    fn used(&self) -> impl Iterator<Item = (&'static str, Kind)> {
        let Self { kind: _, pace_ms, script, command, pass_env, env, url, .. } = self;
        let Self { password_env, password_file, user, budget, .. } = self;
        let keys = [
            ("pace_ms", Kind::Scripted, pace_ms.is_some()),
            ("script", Kind::Scripted, script.is_some()),
            ("command", Kind::Opencode, command.is_some()),
            ("pass_env", Kind::Opencode, pass_env.is_some()),
            ("env", Kind::Opencode, env.is_some()),
            ("url", Kind::Opencode, url.is_some()),
            ("password_env", Kind::Opencode, password_env.is_some()),
            ("password_file", Kind::Opencode, password_file.is_some()),
            ("user", Kind::Opencode, user.is_some()),
            ("budget", Kind::Opencode, budget.is_some()),
        ];
        keys.into_iter().filter(|(_, _, is_there)| *is_there).map(|(key, of, _)| (key, of))
    }
}

impl TryFrom<AgentKeys> for AgentTable {
    type Error = String;

    fn try_from(keys: AgentKeys) -> Result<Self, String> {
        let kind = keys.kind;
        if let Some((key, of)) = keys.used().find(|(_, of)| *of != kind) {
            return Err(format!(
                "there is no key `{key}` in an agent of kind = {:?}; it belongs to kind = {:?}",
                kind.word(),
                of.word()
            ));
        }
        match kind {
            Kind::Scripted => Ok(Self::Scripted(Scripted { pace_ms: keys.pace_ms, script: keys.script })),
            Kind::Opencode => {
                let opencode = Opencode {
                    command: keys.command,
                    pass_env: keys.pass_env.unwrap_or_default(),
                    env: keys.env.unwrap_or_default(),
                    url: keys.url,
                    password_env: keys.password_env,
                    password_file: keys.password_file,
                    user: keys.user,
                    budget: keys.budget.unwrap_or_default(),
                };
                opencode.check()?;
                Ok(Self::Opencode(Box::new(opencode)))
            }
        }
    }
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Scripted => "scripted",
            Self::Opencode => "opencode",
        }
    }
}

impl Opencode {
    /// Refuses what cannot be meant together.
    fn check(&self) -> Result<(), String> {
        let starts = self.command.is_some() || !self.env.is_empty() || !self.pass_env.is_empty();
        let knocks = self.password_env.is_some() || self.password_file.is_some() || self.user.is_some();
        let contradiction = if self.url.is_some() && starts {
            Some("it is started (command, env, pass_env) or found at its url, not both; leave one out")
        } else if self.url.is_none() && knocks {
            Some(
                "password_env, password_file and user say nothing without url; leave them out, or give the url",
            )
        } else if self.password_env.is_some() && self.password_file.is_some() {
            Some("its password is in a variable or in a file, not both; leave one out")
        } else {
            None
        };
        contradiction.map_or(Ok(()), |contradiction| Err(contradiction.to_owned()))
    }
}

/// Refuses a limit that every turn would be past, and one that is no number (`nan`).
fn limit<'de, D, N>(deserializer: D) -> Result<Option<N>, D::Error>
where
    D: Deserializer<'de>,
    N: Deserialize<'de> + Default + PartialOrd,
{
    let limit = N::deserialize(deserializer)?;
    if limit > N::default() {
        return Ok(Some(limit));
    }
    Err(serde::de::Error::custom(
        "it must be more than 0, else every turn is stopped at once; leave it out for the default",
    ))
}

/// Refuses an address that leads nowhere.
fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let url = String::deserialize(deserializer)?;
    if reqwest::Url::parse(&url).is_err() {
        return Err(serde::de::Error::custom("it is no web address; write it like http://127.0.0.1:4096"));
    }
    check_url(&url).map_err(serde::de::Error::custom)?;
    Ok(Some(url))
}

fn script<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DemoScript>, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    let wrong = |problem: String| serde::de::Error::custom(format!("script {}: {problem}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    DemoScript::from_json(&text).map(Some).map_err(|error| wrong(error.to_string()))
}
