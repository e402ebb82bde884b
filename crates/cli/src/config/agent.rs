//! `[agents.NAME]`: the agents, and how each is started or reached.

use super::command_line::CommandLine;
use super::duration::Span;
use super::keys::keys;
use super::pass_env::{self, PassEnv};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use turnstream_agents::demo::DemoScript;
use turnstream_agents::opencode::check_url;
use turnstream_agents::program::{self, ACP, CLAUDE, CODEX, Found, KnownAgent, OPENCODE, Origin, RoutedBy};
use turnstream_model::Chain;
use turnstream_model::event::{Budget, Caps, OnFailure, OnLimit, Unattended};
use turnstream_provider::{Access, Route, Routes};

/// One agent: an `[agents.NAME]`, or one that was found on `PATH`.
#[derive(Debug, Deserialize)]
#[serde(try_from = "AgentKeys")]
pub(crate) enum AgentTable {
    Scripted(Scripted),
    Opencode(Box<Opencode>),
    Claude(Started),
    Codex(Started),
    Acp(Acp),
    Builtin(Builtin),
    /// Found, and this version cannot run it. No configuration has it.
    NotYet(Found),
}

/// A route that an agent is pointed at, and how. The error says why it cannot be.
pub(crate) type Pointed<'a> = Result<(RoutedBy, &'a Arc<Route>), String>;

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
    pub(crate) route: Option<String>,
    pub(crate) budget: BudgetTable,
    pub(crate) unattended: Unattended,
}

/// An agent of kind `claude` or `codex`, which is started. The fields are the keys, see [`AgentKeys`].
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) origin: Origin,
    pub(crate) command: Option<PathBuf>,
    /// The variables of `pass_env`, with their values.
    pub(crate) passed: Vec<(OsString, OsString)>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) route: Option<String>,
    pub(crate) budget: BudgetTable,
    pub(crate) unattended: Unattended,
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
    pub(crate) route: Option<String>,
    pub(crate) budget: BudgetTable,
    pub(crate) unattended: Unattended,
}

/// An agent of kind `builtin`. The fields are the keys, see [`AgentKeys`].
#[derive(Debug)]
pub(crate) struct Builtin {
    pub(crate) origin: Origin,
    pub(crate) route: Option<String>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) budget: BudgetTable,
    pub(crate) unattended: Unattended,
}

keys! {
    /// `[agents.NAME.budget]`: caps of turns and sessions.
    pub(crate) struct BudgetTable in "agents.NAME.budget" {
        /// Model calls of a turn, repeated ones included. Default: none, for opencode and builtin 200.
        steps: PositiveLimit<u32> = "200", file;
        /// The time in which the agent works in a turn. Waiting for a person does not count. Default: none.
        time: Span = "\"1h\"", file;
        /// Tokens of a turn, of all kinds. Default: none.
        tokens: PositiveLimit<u64> = "2000000", file;
        /// Dollars of a turn. Default: none.
        cost: PositiveLimit<f64> = "5.0", file;
        /// Model calls of all turns of a session. Default: none.
        session_steps: PositiveLimit<u32> = "2000", file;
        /// The time of all turns of a session. Default: none.
        session_time: Span = "\"8h\"", file;
        /// Tokens of all turns of a session. Default: none.
        session_tokens: PositiveLimit<u64> = "20000000", file;
        /// Dollars of all turns of a session. Default: none.
        session_cost: PositiveLimit<f64> = "50.0", file;
    }
}

impl BudgetTable {
    /// The caps of new sessions.
    fn caps(&self) -> Budget {
        let count = |limit: Option<PositiveLimit<u64>>| limit.map(|limit| limit.0);
        let steps = |limit: Option<PositiveLimit<u32>>| limit.map(|limit| u64::from(limit.0));
        let millis =
            |span: Option<Span>| span.map(|span| u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX));
        let turn = Caps {
            steps: steps(self.steps),
            time: millis(self.time),
            tokens: count(self.tokens),
            cost: self.cost.map(|limit| limit.0),
        };
        let session = Caps {
            steps: steps(self.session_steps),
            time: millis(self.session_time),
            tokens: count(self.session_tokens),
            cost: self.session_cost.map(|limit| limit.0),
        };
        Budget { turn, session }
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
    pub(crate) budget: BudgetTable,
    pub(crate) unattended: Unattended,
}

keys! {
    /// The keys of all kinds in one table. A tagged enum would read the values before it knows their types,
    /// and could not tell the line of one that does not fit.
    pub(super) struct AgentKeys in "agents.NAME" {
        /// What the agent is: `opencode`, `claude`, `codex`, `acp` for any agent that speaks the Agent Client
        /// Protocol, `builtin` for the gateway's own, or `scripted` for a demo without a model.
        kind: Kind = "\"opencode\"", file;
        /// The program to start, or for `acp` a list of the program and its arguments. `acp` needs it.
        /// Default: `opencode`, `claude` or `codex`, found on `PATH`.
        command: CommandLine = "\"opencode\"", file, agent "opencode" "claude" "codex" "acp";
        /// Variables of the gateway that the agent also gets, besides `PATH`, `HOME`, `LANG` and `TMPDIR`.
        /// A name may end with `*`. Default: the list of its kind in [agents.md](agents.md).
        pass_env: PassEnv = "[\"ANTHROPIC_*\"]", file, agent "opencode" "claude" "codex" "acp";
        /// Variables that are set for the agent.
        env: BTreeMap<String, String> = "{ DISABLE_AUTOUPDATER = \"1\" }", file, agent "opencode" "claude" "codex" "acp" "builtin";
        /// The route by which the agent asks models, an `[llm.routes.NAME]`: [proxy.md](proxy.md#agents).
        /// Default: none, the agent asks its own way. For `builtin` `main`, or the first by name.
        route: String = "\"main\"", file, agent "opencode" "claude" "codex" "acp" "builtin";
        /// The most tokens of one answer. Default: the provider's own, with the format `messages` 16384.
        max_tokens: PositiveLimit<u64> = "16384", file, agent "builtin";
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
        /// Caps of turns and sessions: the table below, and [budgets.md](budgets.md). A turn that reaches one
        /// is stopped and fails, class `budget`.
        budget: BudgetTable = "{ steps = 200 }", file;
        /// What follows when a turn fails at a limit of the provider that tells its end: `wait` until then
        /// and go on, or `fail`. [unattended.md](unattended.md) has the rules. Default: `fail`.
        on_limit: OnLimit = "\"wait\"", file;
        /// How long a session waits for limits at most. Default: 7 days.
        limit_window: Span = "\"7d\"", file;
        /// What follows when a turn fails for another reason that passes: `continue` after a pause, at most
        /// 3 times in a row, or `fail`. Default: `fail`.
        on_failure: OnFailure = "\"continue\"", file;
        /// The prompt that continues a turn. Default: a sentence that asks to continue.
        continue_with: String = "\"Go on.\"", file;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Scripted,
    Opencode,
    Claude,
    Codex,
    Acp,
    Builtin,
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
        let unattended = keys.unattended()?;
        match kind {
            Kind::Scripted => Ok(Self::Scripted(Scripted {
                pace_ms: keys.pace_ms,
                script: keys.script.map(|file| file.0),
                budget: keys.budget.unwrap_or_default(),
                unattended,
            })),
            Kind::Opencode => {
                let starts = keys.command.is_some()
                    || keys.env.is_some()
                    || keys.pass_env.is_some()
                    || keys.route.is_some();
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
                    route: keys.route,
                    budget: keys.budget.unwrap_or_default(),
                    unattended,
                };
                opencode.check(starts)?;
                Ok(Self::Opencode(Box::new(opencode)))
            }
            Kind::Builtin => Ok(Self::Builtin(Builtin {
                origin: Origin::Configured,
                route: keys.route,
                max_tokens: keys.max_tokens.map(|limit| limit.0),
                env: keys.env.unwrap_or_default(),
                budget: keys.budget.unwrap_or_default(),
                unattended,
            })),
            Kind::Claude => Started::configured(kind, &CLAUDE, keys).map(Self::Claude),
            Kind::Codex => Started::configured(kind, &CODEX, keys).map(Self::Codex),
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
                    route: keys.route,
                    budget: keys.budget.unwrap_or_default(),
                    unattended,
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
            Self::Claude(_) | Self::Codex(_) | Self::Acp(_) | Self::Builtin(_) => true,
        }
    }

    /// The route that it is pointed at when it is started, and how. `Err`: it cannot be.
    pub(crate) fn pointed_at<'a>(&self, routes: &'a Routes) -> Option<(&str, Pointed<'a>)> {
        let (name, by) = match self {
            Self::Opencode(table) => (table.route.as_deref()?, OPENCODE.routed_by),
            Self::Claude(table) => (table.route.as_deref()?, CLAUDE.routed_by),
            Self::Codex(table) => (table.route.as_deref()?, CODEX.routed_by),
            Self::Acp(table) => (table.route.as_deref()?, table.known.routed_by),
            // The built-in agent asks providers itself.
            Self::Scripted(_) | Self::Builtin(_) | Self::NotYet(_) => return None,
        };
        let Some(route) = routes.get(name) else { return Some((name, Err(String::new()))) };
        let cannot = |instead| format!("cannot be used: this agent cannot be pointed at a route; {instead}");
        Some((name, by.map_err(cannot).and_then(|by| by.check(route).map(|()| (by, route)))))
    }

    /// The caps of its new sessions.
    pub(super) fn budget(&self) -> Budget {
        match self {
            Self::Scripted(table) => table.budget.caps(),
            Self::Opencode(table) => table.budget.caps(),
            Self::Claude(table) | Self::Codex(table) => table.budget.caps(),
            Self::Acp(table) => table.budget.caps(),
            Self::Builtin(table) => table.budget.caps(),
            Self::NotYet(_) => Budget::default(),
        }
    }

    /// How its new sessions go on after a limit or a failure.
    pub(super) fn unattended(&self) -> Unattended {
        match self {
            Self::Scripted(table) => table.unattended.clone(),
            Self::Opencode(table) => table.unattended.clone(),
            Self::Claude(table) | Self::Codex(table) => table.unattended.clone(),
            Self::Acp(table) => table.unattended.clone(),
            Self::Builtin(table) => table.unattended.clone(),
            Self::NotYet(_) => Unattended::default(),
        }
    }

    /// Whether it was found on `PATH`.
    #[cfg(test)]
    pub(super) fn is_discovered(&self) -> bool {
        match self {
            Self::Scripted(_) => false,
            Self::Opencode(table) => table.origin == Origin::Discovered,
            Self::Claude(table) | Self::Codex(table) => table.origin == Origin::Discovered,
            Self::Acp(table) => table.origin == Origin::Discovered,
            Self::Builtin(table) => table.origin == Origin::Discovered,
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
            Self::Codex => "codex",
            Self::Acp => "acp",
            Self::Builtin => "builtin",
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
            route: None,
            budget: BudgetTable::default(),
            unattended: Unattended::default(),
        }
    }

    /// Refuses keys that contradict each other. `starts`: there is a key about how it is started.
    fn check(&self, starts: bool) -> Result<(), String> {
        let knocks = self.password_env.is_some() || self.password_file.is_some() || self.user.is_some();
        let contradiction = if self.url.is_some() && starts {
            Some("it is started (command, env, pass_env, route) or found at its url, not both; leave one out")
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

impl Started {
    /// The one of the configuration.
    fn configured(kind: Kind, known: &KnownAgent, keys: AgentKeys) -> Result<Self, String> {
        let unattended = keys.unattended()?;
        Ok(Self {
            origin: Origin::Configured,
            command: keys.command.map(|command| command.only_program(kind.word())).transpose()?,
            passed: pass_env::variables(known, keys.pass_env),
            env: keys.env.unwrap_or_default(),
            route: keys.route,
            budget: keys.budget.unwrap_or_default(),
            unattended,
        })
    }

    /// The one at this path, with the defaults of its kind.
    pub(super) fn discovered(known: &KnownAgent, path: PathBuf) -> Self {
        Self {
            origin: Origin::Discovered,
            command: Some(path),
            passed: pass_env::variables(known, None),
            env: BTreeMap::new(),
            route: None,
            budget: BudgetTable::default(),
            unattended: Unattended::default(),
        }
    }
}

impl Builtin {
    /// The one that is offered because there is a route.
    pub(super) fn discovered() -> Self {
        Self {
            origin: Origin::Discovered,
            route: None,
            max_tokens: None,
            env: BTreeMap::new(),
            budget: BudgetTable::default(),
            unattended: Unattended::default(),
        }
    }

    /// Its route: the named one, or `main`, or the first by name that has a key of its own.
    pub(crate) fn route<'a>(&self, routes: &'a Routes) -> Option<&'a Arc<Route>> {
        let has_key = |route: &&Arc<Route>| !matches!(route.access, Access::PassThrough(_));
        match &self.route {
            Some(name) => routes.get(name),
            None => {
                routes.get("main").or_else(|| routes.iter().find(has_key)).or_else(|| routes.iter().next())
            }
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
            route: None,
            budget: BudgetTable::default(),
            unattended: Unattended::default(),
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
