//! The configuration of a command: flags win over variables, and variables over the file.

mod access;
mod agent;
mod chat;
mod command_line;
mod directories;
mod discovery;
#[cfg(test)]
mod documentation;
mod duration;
mod file;
mod keys;
mod limits;
mod llm;
mod pass_env;
mod place;
mod redaction;
mod retention;
mod secret_keys;
mod size;
mod source_line;
mod token_text;
mod toml_errors;
mod unattended;
mod variables;

use crate::data_directory::DataDirectoryError;
use crate::diagnostics::{Collector, LogFilter, LogFormat};
use duration::Span;
use file::{File, Timeouts};
use redaction::LiteralError;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use turnstream_gateway::{OnTimeout, Retention, Settings};
use turnstream_llm::ProfileError;
use turnstream_provider::Routes;
use turnstream_redact::RuleError;
use turnstream_server::{Auth, ChatDefaults, Limits as ServerLimits, Origin, TokenError, TokenFileError};

pub(crate) use agent::{Acp, AgentTable, Builtin, Opencode, Scripted, Started};
pub(crate) use duration::parse as parse_duration;
pub(crate) use file::address;
pub(crate) use place::{Contact, Place};
pub(crate) use secret_keys::exposure;
pub(crate) use token_text::TokenText;

const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4180);

/// The whole configuration of a gateway, with all defaults applied.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) auth: Auth,
    /// The text of the token, for requests to the gateway.
    pub(crate) token_text: Option<TokenText>,
    pub(crate) public_url: Option<Origin>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) opencode_listen: Option<SocketAddr>,
    pub(crate) opencode_ui: Option<SocketAddr>,
    pub(crate) heartbeat: Option<Duration>,
    /// The largest import, in bytes.
    pub(crate) import: Option<u64>,
    /// The limits of the HTTP server.
    pub(crate) server_limits: ServerLimits,
    pub(crate) agents: BTreeMap<String, AgentTable>,
    /// The agent of sessions for which nobody names one.
    pub(crate) default_agent: Option<String>,
    /// The agent and the directory of chats.
    pub(crate) chat: ChatDefaults,
    pub(crate) settings: Settings,
    /// The routes to model providers.
    pub(crate) routes: Routes,
    pub(crate) log: Option<LogFilter>,
    pub(crate) log_format: LogFormat,
    pub(crate) otlp: Option<Collector>,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration {}: {error}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        error: std::io::Error,
    },
    /// The parser's own error is no source of it: that repeats the line of the file, with its secrets.
    #[error("the configuration {} cannot be used: {problem}", path.display())]
    Bad { path: PathBuf, problem: String },
    #[error("{variable} = {value:?} cannot be used: {problem}")]
    Variable { variable: String, value: String, problem: String },
    #[error("agent {0:?} needs another name: letters, digits, '-' and '_', for example my-agent")]
    AgentName(String),
    #[error(
        "{from} = {name:?} is no agent of the configuration, and none that was found on PATH; there is {}",
        known.join(", ")
    )]
    DefaultAgent { from: String, name: String, known: Vec<String> },
    #[error("{name} is a variable that turnstream does not know{}", meant(near.as_deref()))]
    UnknownVariable { name: String, near: Option<String> },
    #[error("the root {} cannot be used: {problem}", path.display())]
    Root { path: PathBuf, problem: String },
    #[error("the root {} cannot be used: {error}; make it, or name another directory", path.display())]
    NoSuchRoot {
        path: PathBuf,
        #[source]
        error: std::io::Error,
    },
    #[error("the redaction cannot be used: {what}: {problem}")]
    Rule {
        what: String,
        #[source]
        problem: RuleError,
    },
    #[error("the redaction cannot be used: {what}: {problem}")]
    Literal {
        what: String,
        #[source]
        problem: LiteralError,
    },
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Route(#[from] llm::RouteKeysError),
    #[error("[agents.{name}] there is no route {route:?}; {}", routes_hint(known))]
    AgentRoute { name: String, route: String, known: Vec<String> },
    #[error("[agents.{name}] route: {route:?} {problem}")]
    RouteOfAgent { name: String, route: String, problem: String },
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    TokenFile(#[from] TokenFileError),
    #[error(
        "auth = \"none\" and a token are both given; leave auth out, or remove the token (`token`, --token, \
         TURNSTREAM_TOKEN)"
    )]
    TokenWithoutAuth,
    #[error("the gateway needs no token (auth = \"none\"), so there is none to replace")]
    NoTokenToReplace,
    #[error(
        "the token is given by `token` in the configuration, --token or TURNSTREAM_TOKEN; change it there, or remove \
         it to use one in the data directory"
    )]
    TokenIsConfigured,
    #[error(
        "the gateway with process id {pid} was started with a token of its own, or without one; change it where that \
         gateway is started, or stop that gateway first"
    )]
    TokenElsewhere { pid: u32 },
    #[error(transparent)]
    DataDirectory(#[from] DataDirectoryError),
    #[error("this user has no home directory for the data; name a directory with --data DIR")]
    NoData,
    #[error("cannot read the current directory: {0}; name the directory for sessions with --root DIR")]
    NoRoot(#[source] std::io::Error),
}

/// The way out of an unknown variable.
fn meant(near: Option<&str>) -> String {
    match near {
        Some(near) => format!("; did you mean {near}? Otherwise unset it"),
        None => "; unset it, or put what it was meant for into the configuration".to_owned(),
    }
}

/// The way out of an unknown route.
fn routes_hint(known: &[String]) -> String {
    match known {
        [] => "add an [llm.routes.main] with url and format".to_owned(),
        known => format!("there is {}", known.join(", ")),
    }
}

/// Parses the limit of an import, from a flag or a variable.
fn import_mib(text: &str) -> Result<u64, String> {
    let mib = text.parse().map_err(|_| "it must be a whole number of MiB, for example 4096".to_owned())?;
    match File::key("import_mib").and_then(keys::Key::zero_problem) {
        Some(problem) if mib == 0 => Err(problem),
        _ => Ok(mib),
    }
}

impl Config {
    /// Reads and checks everything. `listen` comes from a flag or a variable. `root` is the directory for
    /// sessions if nobody names one, instead of the current directory.
    pub(crate) fn resolve(
        place: &Place,
        listen: Option<SocketAddr>,
        root: Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        let path = place.file();
        let file: File = file::read(path.as_deref())?;
        if let Some(path) = &path {
            refuse_zeros(&file).map_err(|problem| ConfigError::Bad { path: path.clone(), problem })?;
        }
        let variable = |name: &str| std::env::var(name).ok();
        let file = file.with_environment(variable)?;
        let timeouts = file.timeouts.with_environment(variable)?;
        let retention = file.retention.with_environment(variable)?.decided();
        let limits = file.limits.with_environment(variable)?;
        let redaction = file.redaction.with_environment(variable)?;
        let routes = file.llm.routes()?;
        let data = place.data.clone().or(file.data).or_else(directories::data).ok_or(ConfigError::NoData)?;
        let from_flags = Some(place.roots.clone()).filter(|roots| !roots.is_empty());
        let roots = match from_flags.or(file.roots.map(|roots| roots.0)).or(root.map(|root| vec![root])) {
            Some(roots) => roots,
            None => vec![std::env::current_dir().map_err(ConfigError::NoRoot)?],
        };
        let mut agents = file.agents;
        // The name is also the name of a directory.
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if let Some(name) = agents.keys().find(|name| name.is_empty() || !name.bytes().all(fits)) {
            return Err(ConfigError::AgentName(name.clone()));
        }
        // A fresh install has an agent to try.
        if file.demo != Some(false) {
            agents.entry("scripted".to_owned()).or_insert_with(|| AgentTable::Scripted(Scripted::default()));
        }
        if place.discover.or(file.discover) != Some(false) {
            discovery::add(&mut agents, &std::env::var_os("PATH").unwrap_or_default());
            discovery::add_builtin(&mut agents, &routes);
        }
        for (name, table) in &agents {
            if let AgentTable::Builtin(table) = table
                && table.route(&routes).is_none()
            {
                let known = routes.iter().map(|route| route.name.clone()).collect();
                let route = table.route.clone().unwrap_or_else(|| "main".to_owned());
                return Err(ConfigError::AgentRoute { name: name.clone(), route, known });
            }
        }
        for (name, table) in &agents {
            let Some((route, Err(problem))) = table.pointed_at(&routes) else { continue };
            let (name, route) = (name.clone(), route.to_owned());
            return Err(match routes.get(&route) {
                Some(_) => ConfigError::RouteOfAgent { name, route, problem },
                None => {
                    let known = routes.iter().map(|route| route.name.clone()).collect();
                    ConfigError::AgentRoute { name, route, known }
                }
            });
        }
        let default_agent = default_agent(file.default_agent, &agents)?;
        let chat = file.chat.decided();
        if let Some(name) = chat.agent.clone().filter(|name| !agents.contains_key(name)) {
            let (from, known) = ("[chat] agent".to_owned(), agents.keys().cloned().collect());
            return Err(ConfigError::DefaultAgent { from, name, known });
        }
        let mut settings = settings(&timeouts, roots, retention);
        settings.limits = limits.of_gateway();
        settings.budgets = agents.iter().map(|(name, table)| (name.clone(), table.budget())).collect();
        settings.unattended = agents.iter().map(|(name, table)| (name.clone(), table.unattended())).collect();
        let configured = place.token.clone().or(file.token);
        let auth_choice = file.auth.unwrap_or_default();
        let auth = access::auth(auth_choice, configured.as_ref(), &data)?;
        let token_text = access::sent_token(auth_choice, configured, &data)?;
        settings.redaction = redaction.rules(token_text.as_ref().map(TokenText::expose), &agents, &routes)?;
        Ok(Self {
            listen: listen.or(file.listen.map(|address| address.0)).unwrap_or(LISTEN),
            data,
            auth,
            token_text,
            public_url: file.public_url.map(|url| url.0),
            origins: file.origins.map(|origins| origins.0).unwrap_or_default(),
            metrics_listen: file.metrics_listen.map(|address| address.0),
            opencode_listen: file.opencode_listen.map(|address| address.0),
            opencode_ui: file.opencode_ui.map(|address| address.0),
            heartbeat: timeouts.heartbeat.map(|span| span.0),
            import: place.import_mib.or(file.import_mib).map(|mib| mib.saturating_mul(1 << 20)),
            server_limits: limits.of_server(),
            agents,
            default_agent,
            chat,
            settings,
            routes,
            log: file.log,
            log_format: file.log_format.unwrap_or_default(),
            otlp: file.otlp,
            file: path,
        })
    }

    /// Refuses roots in which no session could work. Only a command that hosts a gateway needs them.
    pub(crate) fn check_roots(&self) -> Result<(), ConfigError> {
        for path in &self.settings.roots {
            let wrong = |problem: String| ConfigError::Root { path: path.clone(), problem };
            if !path.is_absolute() {
                let here = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                return Err(wrong(format!(
                    "it is relative; give the absolute path, here {}",
                    here.display()
                )));
            }
            match std::fs::metadata(path) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => {
                    return Err(wrong("it is a file; name the directory sessions may work in".to_owned()));
                }
                Err(error) => return Err(ConfigError::NoSuchRoot { path: path.clone(), error }),
            }
        }
        Ok(())
    }
}

/// Limits of zero in the file, by table and key.
fn refuse_zeros(file: &File) -> Result<(), String> {
    file.refuse_zero().map_err(|zero| format!("{}: {zero}", zero.0.name))?;
    let of_table = |zero: keys::Zero| format!("[{}] {}: {zero}", zero.0.table, zero.0.name);
    file.retention.refuse_zero().map_err(of_table)?;
    file.limits.refuse_zero().map_err(of_table)
}

/// Refuses a default agent that does not exist.
fn default_agent(
    name: Option<String>,
    agents: &BTreeMap<String, AgentTable>,
) -> Result<Option<String>, ConfigError> {
    match name {
        Some(name) if !agents.contains_key(&name) => {
            let variable = File::key("default_agent").map(keys::Key::variable);
            let from = variable.filter(|variable| std::env::var_os(variable).is_some());
            let from = from.unwrap_or_else(|| "default_agent".to_owned());
            Err(ConfigError::DefaultAgent { from, name, known: agents.keys().cloned().collect() })
        }
        known => Ok(known),
    }
}

fn settings(timeouts: &Timeouts, roots: Vec<PathBuf>, retention: Retention) -> Settings {
    let defaults = Settings::default();
    let or = |chosen: Option<Span>, default: Duration| chosen.map_or(default, |span| span.0);
    Settings {
        roots,
        connect: or(timeouts.connect, defaults.connect),
        start: or(timeouts.start, defaults.start),
        inactivity: or(timeouts.inactivity, defaults.inactivity),
        cancel: or(timeouts.cancel, defaults.cancel),
        recovery: or(timeouts.recovery, defaults.recovery),
        status_probe: or(timeouts.truth, defaults.status_probe),
        approval: timeouts.approval.map(|span| span.0).or(defaults.approval),
        on_timeout: match timeouts.on_timeout {
            None => defaults.on_timeout,
            Some(file::OnTimeout::Reject) => OnTimeout::Reject,
            Some(file::OnTimeout::Cancel) => OnTimeout::Cancel,
        },
        idle: or(timeouts.idle, defaults.idle),
        quiet_sessions: defaults.quiet_sessions,
        search: defaults.search,
        erasure: defaults.erasure,
        debounce: defaults.debounce,
        redaction: defaults.redaction,
        retention,
        clock: defaults.clock,
        limits: defaults.limits,
        budgets: defaults.budgets,
        unattended: defaults.unattended,
    }
}

#[cfg(test)]
mod tests {
    use super::file::ContactKeys;
    use super::{Config, ConfigError, Place, TokenText};
    use std::error::Error;
    use std::path::{Path, PathBuf};
    use std::time::Duration;
    use turnstream_provider::{Access, KeySource};

    fn place(directory: &Path, file: &str) -> Place {
        let config = directory.join("turnstream.toml");
        std::fs::write(&config, file).unwrap();
        // These tests are about the file, wherever they run.
        let (data, discover) = (Some(directory.join("data")), Some(false));
        Place { config: Some(config), data, discover, ..Place::default() }
    }

    fn problem(file: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        Config::resolve(&place(directory.path(), file), None, None).unwrap_err().to_string()
    }

    #[test]
    fn profiles_of_the_file_are_checked_and_found() {
        let directory = tempfile::tempdir().unwrap();
        let file = "[llm.profiles.mine]\nbased_on = \"groq\"\ndone = \"without-finish\"\noverflows = [\"Too long\"]\n";
        let place = place(directory.path(), file);
        Config::resolve(&place, None, None).unwrap();
        let names: Vec<_> = place.profiles().unwrap().into_iter().map(|profile| profile.name).collect();
        assert_eq!(names, ["mine"]);
        let wrong = problem("[llm.profiles.groq]\n");
        assert!(wrong.contains("[llm.profiles.groq]") && wrong.contains("built in"), "{wrong}");
        assert!(problem("[llm.profiles.mine]\ndoen = \"always\"\n").contains("doen"));
        assert!(problem("[llm.profiles.mine]\ndone = \"often\"\n").contains("done"));
    }

    #[test]
    fn routes_of_the_file_are_checked_and_found() {
        let directory = tempfile::tempdir().unwrap();
        let file = "[llm.profiles.mine]\n[llm.routes.main]\nurl = \"https://api.example.com/v1\"\nformat = \"chat\"\n\
                    key_env = \"K\"\nprofile = \"mine\"\nreattach = 0\nfallback = [\"local\"]\n\
                    [llm.routes.local]\nurl = \"http://127.0.0.1:1/v1\"\nformat = \"chat\"\nmodel = \"m\"\n";
        let config = Config::resolve(&place(directory.path(), file), None, None).unwrap();
        let main = config.routes.get("main").unwrap();
        assert_eq!((main.profile.name.as_ref(), main.reattach), ("mine", Duration::ZERO));
        assert_eq!(main.access, Access::Configured(KeySource::Variable("K".to_owned())));
        assert_eq!(config.routes.get("local").unwrap().access, Access::Keyless);
        let wrong = |keys: &str| problem(&format!("[llm.routes.main]\nurl = \"http://h/v1\"\n{keys}"));
        assert!(wrong("").contains("`format` is missing"));
        assert!(wrong("format = \"gemini\"\n").contains("format"));
        let chat = |keys: &str| wrong(&format!("format = \"chat\"\n{keys}"));
        assert!(chat("profile = \"nobody\"\n").contains("there are unknown, openai"));
        assert!(chat("attempts = 0\n").contains("attempts: 0 would ask nobody"));
        assert!(chat("pass_keys = true\n").contains("secret_env"));
        assert!(chat("pass_keys = true\nkey_env = \"K\"\nsecret_env = \"S\"\n").contains("not both"));
        assert!(chat("secret_env = \"S\"\n").contains("pass_keys"));
        assert!(chat("fallback = [\"b\"]\n").contains("no route \"b\""));
    }

    #[test]
    fn flags_are_stronger_than_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut place = place(
            directory.path(),
            "listen = \"127.0.0.1:1\"\ndata = \"/elsewhere\"\nroots = [\"/a\"]\ntoken = \"t\"\n\
             [agents.demo]\nkind = \"scripted\"\npace_ms = 5\n[timeouts]\nstart = \"90s\"\napproval = 3\n",
        );
        place.roots = vec![PathBuf::from("/b")];
        let config = Config::resolve(&place, Some("127.0.0.1:2".parse().unwrap()), None).unwrap();
        assert_eq!(config.listen.port(), 2);
        assert_eq!(config.data, directory.path().join("data"));
        assert_eq!(config.settings.roots, [PathBuf::from("/b")]);
        assert_eq!(config.settings.start, Duration::from_secs(90));
        assert_eq!(config.settings.approval, Some(Duration::from_secs(3)));
        assert_eq!(config.agents.keys().collect::<Vec<_>>(), ["demo", "scripted"]);
        assert_eq!(config.token_text.as_ref().map(TokenText::expose), Some("t"));
        place.token = Some(TokenText::from("sesame".to_owned()));
        let config = Config::resolve(&place, None, None).unwrap();
        let keys: ContactKeys = toml::from_str("token = \"sesame\"").unwrap();
        let printed = format!("{place:?} {config:?} {keys:?}");
        assert!(!printed.contains("sesame"), "{printed}");
    }

    #[test]
    fn an_error_of_the_system_is_the_cause_of_what_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let is_not_found = |error: &ConfigError| {
            let causes = std::iter::successors(error.source(), |&cause| cause.source());
            let found: Vec<_> = causes.filter_map(|cause| cause.downcast_ref::<std::io::Error>()).collect();
            found.iter().any(|cause| cause.kind() == std::io::ErrorKind::NotFound)
        };
        let mut place = place(directory.path(), "");
        place.roots = vec![directory.path().join("nowhere")];
        let no_root = Config::resolve(&place, None, None).unwrap().check_roots().unwrap_err();
        assert!(is_not_found(&no_root), "{no_root:?}");
        let file = directory.path().join("nothing");
        let literal = format!("[[redaction.literals]]\nname = \"a\"\nfile = {file:?}\n");
        std::fs::write(place.config.as_ref().unwrap(), literal).unwrap();
        let no_literal = Config::resolve(&place, None, None).unwrap_err();
        assert!(is_not_found(&no_literal), "{no_literal:?}");
        place.config = Some(file);
        let no_file = Config::resolve(&place, None, None).unwrap_err();
        assert!(is_not_found(&no_file), "{no_file:?}");
    }

    #[test]
    fn the_demo_agent_can_be_switched_off() {
        let directory = tempfile::tempdir().unwrap();
        let agents = |file: &str| {
            let config = Config::resolve(&place(directory.path(), file), None, None).unwrap();
            config.agents.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(agents(""), ["scripted"]);
        assert_eq!(agents("demo = true"), ["scripted"]);
        assert_eq!(agents("demo = false"), [""; 0]);
        assert_eq!(agents("demo = false\n[agents.scripted]\nkind = \"scripted\""), ["scripted"]);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_refused_by_name() {
        for (file, told) in [
            ("lisen = 1", "there is no key `lisen` here; there is `listen`"),
            ("[timeouts]\nstrat = 1", "there is no key `strat`"),
            (
                "[timeouts]\nstart = \"soon\"",
                "\"soon\" is not a time, for example 500ms, 30s, 10m, 1h or 30d",
            ),
            ("[retention]\nmax_size = 1", "there is no key `max_size`"),
            ("[retention]\nmax_bytes = \"lots\"", "\"lots\" is not a size, for example 500MB"),
            ("[agents.a]\nkind = \"nope\"", "`nope` is not known; it must be one of"),
            ("[agents.a]\nkind = \"scripted\"\npase_ms = 1", "there is no key `pase_ms`"),
            ("[agents.a]\nkind = \"opencode\"\nurl = \"http://127.0.0.1:1\"\ncommand = \"x\"", "not both"),
            ("[agents.a]\nkind = \"opencode\"\nuser = \"me\"", "without url"),
            ("[agents.\"../a\"]\nkind = \"scripted\"", "agent \"../a\" needs another name"),
            ("listen = \"here\"", "\"here\" is no address to listen on"),
            ("token = \"a b\"", "the token contains a space"),
            // By key and line.
            (
                "[agents.a]\nkind = \"opencode\"\npass_env = \"KEY\"",
                "line 3, column 12\n  |\n3 | pass_env = \"KEY\"\n  |            ^^^^^\nstring \"KEY\" is given",
            ),
            ("[agents.a]\nkind = \"scripted\"\npace_ms = \"fast\"", "3 | pace_ms = \"fast\""),
            ("[agents.a]\nkind = \"opencode\"\n[agents.a.budget]\nsteps = -1", "4 | steps = -1"),
            (
                "[agents.a]\nkind = \"scripted\"\ncommand = \"x\"",
                "it belongs to kind = \"opencode\" and kind = \"claude\"",
            ),
            (
                "[agents.a]\nkind = \"claude\"\nurl = \"http://127.0.0.1\"",
                "it belongs to kind = \"opencode\"",
            ),
            ("[agents.a]\nkind = \"claude\"\npass_env = [\"*\"]", "\"*\" names no variable"),
            ("[agents.a]\nkind = \"claude\"\npass_env = [\"A*B\"]", "write a name like ANTHROPIC_API_KEY"),
            ("discover = \"no\"", "it must be true or false"),
            ("[agents.a]\npace_ms = 1", "the key `kind` is missing"),
            ("[agents.a]\nkind = \"opencode\"\nbudget = 3", "integer `3` is given, and it must be a table"),
            ("retention = 3", "it must be a table"),
            ("[agents.a]\nkind = \"opencode\"\nbudget.steps = 0", "it must be more than 0"),
            ("[agents.a]\nkind = \"opencode\"\nbudget.tokens = 0", "it must be more than 0"),
            ("[agents.a]\nkind = \"opencode\"\nbudget.cost = 0", "it must be more than 0"),
            ("[agents.a]\nkind = \"opencode\"\nbudget.cost = -1.0", "it must be more than 0"),
            ("[agents.a]\nkind = \"opencode\"\nbudget.cost = nan", "it must be more than 0"),
            ("roots = []", "1 | roots = []"),
            (
                "[agents.a]\nkind = \"opencode\"\nurl = \"127.0.0.1:4096\"",
                "write it like http://127.0.0.1:4096",
            ),
            ("[agents.a]\nkind = \"opencode\"\nurl = \"ftp://127.0.0.1\"", "its scheme has to be http"),
            ("default_agent = \"b\"\n[agents.a]\nkind = \"opencode\"", "there is a, scripted"),
            ("import_mib = 0", "import_mib: 0 would refuse every import"),
            ("[timeouts]\nstart = 0", "0 would be over before it began"),
            ("[retention]\nmax_age = 0", "leave max_age out to keep turns of any age"),
            ("[retention]\nmax_age = \"0d\"", "leave max_age out"),
            ("[retention]\nmax_bytes = 0", "leave max_bytes out"),
            ("[retention]\nmax_turns = 0", "leave max_turns out"),
            ("[retention]\nsession_max_age = \"0s\"", "0 would delete every quiet session at once"),
            ("[retention]\nmax_sessions = 0", "leave max_sessions out"),
            ("[retention]\ntotal_bytes = \"0GB\"", "leave total_bytes out"),
            ("[retention]\nevery = 0", "look once a minute"),
            ("[limits]\nlive_agents = 0", "[limits] live_agents: 0 would refuse every prompt"),
            ("[limits]\nqueued_bytes = \"much\"", "\"much\" is not a size"),
            ("[limits]\nconnections = 0", "[limits] connections: 0 would refuse every connection"),
            ("[limits]\nbody_memory = 0", "leave body_memory out"),
            ("[limits]\nimport_time = 0", "0 would be over before it began"),
        ] {
            let problem = problem(file);
            assert!(problem.contains(told), "{file}: {problem}");
        }
    }
}
