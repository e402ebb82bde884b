//! `[agents.NAME]`: the agents, and how each is started or reached.

use super::command_line::CommandLine;
use super::duration::Span;
use super::keys::keys;
use super::pass_env::{self, PassEnv};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use turnstream_agents::demo::DemoScript;
use turnstream_agents::opencode::check_url;
use turnstream_agents::program::{self, ACP, CLAUDE, Found, KnownAgent, OPENCODE, Origin};
use turnstream_model::Chain;

/// One agent: an `[agents.NAME]`, or one that was found on `PATH`.
#[derive(Debug, Deserialize)]
#[serde(try_from = "AgentKeys")]
pub(crate) enum AgentTable {
    Scripted(Scripted),
    Opencode(Box<Opencode>),
    Claude(Claude),
    Acp(Acp),
    /// Found, and this version cannot run it. No configuration has it.
    NotYet(Found),
}

/// An agent of kind `opencode`. The fields are the keys, see [`AgentKeys`].
#[derive(Debug)]
pub(crate) struct Opencode {
    pub(crate) origin: Origin,
    pub(crate) command: Option<PathBuf>,
    /// The variables of `pass_env`, with their values.
    pub(crate) passed: Vec<(OsString, OsString)>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) url: Option<String>,
    pub(crate) password_env: Option<String>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) user: Option<String>,
    pub(crate) budget: BudgetTable,
}

/// An agent of kind `claude`. The fields are the keys, see [`AgentKeys`].
#[derive(Debug)]
pub(crate) struct Claude {
    pub(crate) origin: Origin,
    pub(crate) command: Option<PathBuf>,
    /// The variables of `pass_env`, with their values.
    pub(crate) passed: Vec<(OsString, OsString)>,
    pub(crate) env: BTreeMap<String, String>,
}

/// An agent of kind `acp`. The fields are the keys, see [`AgentKeys`].
#[derive(Debug)]
pub(crate) struct Acp {
    pub(crate) origin: Origin,
    pub(crate) command: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// What is known of the program.
    pub(crate) known: &'static KnownAgent,
    /// The variables of `pass_env`, with their values.
    pub(crate) passed: Vec<(OsString, OsString)>,
    pub(crate) env: BTreeMap<String, String>,
}

keys! {
    /// `[agents.NAME.budget]`: limits of one turn.
    pub(crate) struct BudgetTable in "agents.NAME.budget" {
        /// Model calls, repeated ones included. Default: 200, because opencode has no limit of its own.
        steps: PositiveLimit<u32> = "200", file;
        /// The time a turn takes. Default: no limit.
        time: Span = "\"1h\"", file;
        /// Tokens of all kinds, subagents included. Default: no limit.
        tokens: PositiveLimit<u64> = "2000000", file;
        /// Dollars, subagents included. Default: no limit.
        cost: PositiveLimit<f64> = "5.0", file;
    }
}

/// A limit that is more than zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PositiveLimit<N>(pub(crate) N);

/// An agent of kind `scripted`.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    pub(crate) pace_ms: Option<u64>,
    pub(crate) script: Option<DemoScript>,
}

keys! {
    /// The keys of all kinds in one table. A tagged enum would read the values before it knows their types,
    /// and could not tell the line of one that does not fit.
    pub(super) struct AgentKeys in "agents.NAME" {
        /// What the agent is: `opencode`, `claude`, `acp` for any agent that speaks the Agent Client
        /// Protocol, or `scripted` for a demo without a model.
        kind: Kind = "\"opencode\"", file;
        /// The program to start, or for `acp` a list of the program and its arguments. `acp` needs it.
        /// Default: `opencode` or `claude`, found on `PATH`.
        command: CommandLine = "\"opencode\"", file, agent "opencode" "claude" "acp";
        /// Variables of the gateway that the agent also gets, besides `PATH`, `HOME`, `LANG` and `TMPDIR`.
        /// A name may end with `*`. Default: the list of its kind in [agents.md](agents.md).
        pass_env: PassEnv = "[\"ANTHROPIC_*\"]", file, agent "opencode" "claude" "acp";
        /// Variables that are set for the agent.
        env: BTreeMap<String, String> = "{ DISABLE_AUTOUPDATER = \"1\" }", file, agent "opencode" "claude" "acp";
        /// The address of an opencode server that already runs. It is used, and never started or stopped.
        /// Not together with `command`, `env` or `pass_env`.
        url: AgentUrl = "\"http://127.0.0.1:4096\"", file, agent "opencode";
        /// The variable of the gateway that holds the password of the server at `url`.
        /// It is read again when the server refuses it.
        password_env: String = "\"OPENCODE_SERVER_PASSWORD\"", file, agent "opencode";
        /// The file that holds the password, instead of a variable.
        password_file: PathBuf = "\"/run/secrets/opencode\"", file, agent "opencode";
        /// The user name for the server at `url`. Default: `opencode`.
        user: String = "\"opencode\"", file, agent "opencode";
        /// The delay between pieces of text, in milliseconds.
        pace_ms: u64 = "25", file, agent "scripted";
        /// The script for prompts that are not scripts themselves: [scripted-agent.md](scripted-agent.md).
        script: ScriptFile = "\"/srv/demo.json\"", file, agent "scripted";
        /// Limits of one turn: the table below. A turn that reaches one is stopped and fails, class `budget`.
        budget: BudgetTable = "{ steps = 200 }", file, agent "opencode";
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Scripted,
    Opencode,
    Claude,
    Acp,
}

impl TryFrom<AgentKeys> for AgentTable {
    type Error = String;

    fn try_from(keys: AgentKeys) -> Result<Self, String> {
        let kind = keys.kind.ok_or("the key `kind` is missing")?;
        for key in keys.given() {
            if !key.agents.is_empty() && !key.agents.contains(&kind.word()) {
                let of: Vec<String> = key.agents.iter().map(|of| format!("kind = {of:?}")).collect();
                return Err(format!(
                    "there is no key `{}` in an agent of kind = {:?}; it belongs to {}",
                    key.name,
                    kind.word(),
                    of.join(" and ")
                ));
            }
        }
        match kind {
            Kind::Scripted => {
                Ok(Self::Scripted(Scripted { pace_ms: keys.pace_ms, script: keys.script.map(|file| file.0) }))
            }
            Kind::Opencode => {
                let starts = keys.command.is_some() || keys.env.is_some() || keys.pass_env.is_some();
                let opencode = Opencode {
                    origin: Origin::Configured,
                    command: keys.command.map(|command| command.only_program(kind.word())).transpose()?,
                    passed: match keys.url {
                        Some(_) => Vec::new(),
                        None => pass_env::variables(&OPENCODE, keys.pass_env),
                    },
                    env: keys.env.unwrap_or_default(),
                    url: keys.url.map(|url| url.0),
                    password_env: keys.password_env,
                    password_file: keys.password_file,
                    user: keys.user,
                    budget: keys.budget.unwrap_or_default(),
                };
                opencode.check(starts)?;
                Ok(Self::Opencode(Box::new(opencode)))
            }
            Kind::Claude => Ok(Self::Claude(Claude {
                origin: Origin::Configured,
                command: keys.command.map(|command| command.only_program(kind.word())).transpose()?,
                passed: pass_env::variables(&CLAUDE, keys.pass_env),
                env: keys.env.unwrap_or_default(),
            })),
            Kind::Acp => {
                let Some(CommandLine { program, arguments }) = keys.command else {
                    return Err(
                        "an agent of kind = \"acp\" needs its command, like command = [\"opencode\", \
                                \"acp\"]"
                            .to_owned(),
                    );
                };
                let known = program::known_acp(&program, &arguments).unwrap_or(&ACP);
                Ok(Self::Acp(Acp {
                    origin: Origin::Configured,
                    command: program,
                    arguments,
                    known,
                    passed: pass_env::variables(known, keys.pass_env),
                    env: keys.env.unwrap_or_default(),
                }))
            }
        }
    }
}

impl AgentTable {
    /// Whether processes are started for it.
    pub(crate) fn starts_processes(&self) -> bool {
        match self {
            Self::Scripted(_) | Self::NotYet(_) => false,
            Self::Opencode(table) => table.url.is_none(),
            Self::Claude(_) | Self::Acp(_) => true,
        }
    }

    /// Whether it was found on `PATH`.
    #[cfg(test)]
    pub(super) fn is_discovered(&self) -> bool {
        match self {
            Self::Scripted(_) => false,
            Self::Opencode(table) => table.origin == Origin::Discovered,
            Self::Claude(table) => table.origin == Origin::Discovered,
            Self::Acp(table) => table.origin == Origin::Discovered,
            Self::NotYet(_) => true,
        }
    }
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Scripted => "scripted",
            Self::Opencode => "opencode",
            Self::Claude => "claude",
            Self::Acp => "acp",
        }
    }
}

impl Opencode {
    /// The one at this path, with the defaults of its kind.
    pub(super) fn discovered(path: PathBuf) -> Self {
        Self {
            origin: Origin::Discovered,
            command: Some(path),
            passed: pass_env::variables(&OPENCODE, None),
            env: BTreeMap::new(),
            url: None,
            password_env: None,
            password_file: None,
            user: None,
            budget: BudgetTable::default(),
        }
    }

    /// Refuses keys that contradict each other. `starts`: there is a key about how it is started.
    fn check(&self, starts: bool) -> Result<(), String> {
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

impl Claude {
    /// The one at this path, with the defaults of its kind.
    pub(super) fn discovered(path: PathBuf) -> Self {
        Self {
            origin: Origin::Discovered,
            command: Some(path),
            passed: pass_env::variables(&CLAUDE, None),
            env: BTreeMap::new(),
        }
    }
}

impl Acp {
    /// The one at this path, with these arguments and the defaults of its program.
    pub(super) fn discovered(found: Found, arguments: &[&str]) -> Self {
        Self {
            origin: Origin::Discovered,
            command: found.path,
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            known: found.known,
            passed: pass_env::variables(found.known, None),
            env: BTreeMap::new(),
        }
    }
}

/// The address of an agent's server.
#[derive(Debug)]
pub(super) struct AgentUrl(String);

/// A script, read from its file.
#[derive(Debug)]
pub(super) struct ScriptFile(DemoScript);

impl<'de, N: Deserialize<'de> + Default + PartialOrd> Deserialize<'de> for PositiveLimit<N> {
    /// Refuses a limit that every turn would exceed, and one that is not a number (`nan`).
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let limit = N::deserialize(deserializer)?;
        if limit > N::default() {
            return Ok(Self(limit));
        }
        Err(serde::de::Error::custom(
            "it must be more than 0, else every turn is stopped at once; leave it out for the default",
        ))
    }
}

impl<'de> Deserialize<'de> for AgentUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let url = String::deserialize(deserializer)?;
        if reqwest::Url::parse(&url).is_err() {
            return Err(serde::de::Error::custom("it is not a URL; write it like http://127.0.0.1:4096"));
        }
        check_url(&url).map_err(serde::de::Error::custom)?;
        Ok(Self(url))
    }
}

impl<'de> Deserialize<'de> for ScriptFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let path = PathBuf::deserialize(deserializer)?;
        // An error of a deserializer is a text: it is given all causes here.
        let wrong = |error: &dyn std::error::Error| {
            serde::de::Error::custom(format!("script {}: {}", path.display(), Chain(error)))
        };
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(&error))?;
        DemoScript::from_json(&text).map(Self).map_err(|error| wrong(&error))
    }
}
