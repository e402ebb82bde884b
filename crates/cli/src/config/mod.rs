//! What a command goes by: flags over environment over file.

mod duration;
mod file;
mod places;
mod redaction;
mod retention;
mod size;

use file::{File, Timeouts};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use turnstream_gateway::{OnTimeout, Retention, Settings};
use turnstream_server::{Token, TokenError};

pub(crate) use file::{AgentTable, Opencode, Scripted};

const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4180);

/// Where the configuration and the data are; every command that needs a gateway has these.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Place {
    /// The configuration; without it turnstream.toml in the user's configuration directory, if there is one
    #[arg(long, value_name = "FILE", env = "TURNSTREAM_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The directory everything is kept in
    #[arg(long, value_name = "DIR", env = "TURNSTREAM_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Sessions may only work below these directories [default: the current one]; may be given several times
    #[arg(long = "root", value_name = "DIR", env = "TURNSTREAM_ROOTS", value_delimiter = ':')]
    pub(crate) roots: Vec<PathBuf>,
    /// The token that clients of the gateway show; better given by the variable or the file than as a flag
    #[arg(long, env = "TURNSTREAM_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// How large a file may be that the gateway imports, in MiB [default: 4096]
    #[arg(long, value_name = "MIB", env = "TURNSTREAM_IMPORT_MIB", hide = true)]
    pub(crate) import_mib: Option<u64>,
}

impl Place {
    /// The directory everything is kept in, for those who need nothing else.
    pub(crate) fn data(&self) -> Result<PathBuf, ConfigError> {
        let path = self.config.clone().or_else(|| places::configuration().filter(|path| path.is_file()));
        let file = path.as_deref().map(File::read).transpose()?.unwrap_or_default();
        self.data.clone().or(file.data).or_else(places::data).ok_or(ConfigError::NoData)
    }
}

/// How a gateway is to run, with everything decided.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) token: Option<Token>,
    /// The same, for showing it to a gateway.
    pub(crate) secret: Option<String>,
    pub(crate) heartbeat: Option<Duration>,
    /// Bytes that a file may have that is imported.
    pub(crate) import: Option<u64>,
    pub(crate) agents: BTreeMap<String, AgentTable>,
    pub(crate) settings: Settings,
    /// The file it comes from.
    pub(crate) file: Option<PathBuf>,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("the configuration {} cannot be used: {problem}", path.display())]
    Bad { path: PathBuf, problem: String },
    #[error("{variable} = {value:?} cannot be used: {problem}")]
    Variable { variable: String, value: String, problem: String },
    #[error("agent {0:?} needs another name: letters, digits, '-' and '_', for example my-agent")]
    AgentName(String),
    #[error("agent {name:?} cannot be used: {problem}")]
    Agent { name: String, problem: &'static str },
    #[error("the redaction cannot be used: {what}: {problem}")]
    Redaction { what: String, problem: String },
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("there is no home directory to keep data in; say where: --data DIR")]
    NoData,
    #[error("cannot tell which directory this is: {0}; say where sessions may work: --root DIR")]
    NoRoot(std::io::Error),
}

impl Config {
    /// Decides everything. `listen` is what flags and environment say of it; `root` is where sessions may work if nobody
    /// says, in place of the current directory.
    pub(crate) fn resolve(
        place: &Place,
        listen: Option<SocketAddr>,
        root: Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        let named = place.config.clone();
        let found = || places::configuration().filter(|path| path.is_file());
        let path = named.or_else(found);
        let file = path.as_deref().map(File::read).transpose()?.unwrap_or_default();
        let data = place.data.clone().or(file.data).or_else(places::data).ok_or(ConfigError::NoData)?;
        let secret = place.token.clone().or(file.token);
        let token = secret.clone().map(Token::new).transpose()?;
        let roots = [place.roots.clone(), file.roots].into_iter().find(|roots| !roots.is_empty());
        let roots = match (roots, root) {
            (Some(roots), _) => roots,
            (None, Some(root)) => vec![root],
            (None, None) => vec![std::env::current_dir().map_err(ConfigError::NoRoot)?],
        };
        let timeouts = file.timeouts.with_environment(|name| std::env::var(name).ok())?;
        let retention = file.retention.with_environment(|name| std::env::var(name).ok())?.decided();
        let mut agents = file.agents;
        // Some of them keep files under their name.
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if let Some(name) = agents.keys().find(|name| name.is_empty() || !name.bytes().all(fits)) {
            return Err(ConfigError::AgentName(name.clone()));
        }
        // A fresh install has something to talk to.
        agents.entry("scripted".to_owned()).or_insert_with(|| AgentTable::Scripted(Scripted::default()));
        for (name, table) in &agents {
            if let AgentTable::Opencode(opencode) = table {
                opencode.check().map_err(|problem| ConfigError::Agent { name: name.clone(), problem })?;
            }
        }
        let mut settings = settings(&timeouts, roots, retention);
        settings.secrets = file.redaction.rules(secret.as_deref(), &agents)?;
        Ok(Self {
            listen: listen.or(file.listen).unwrap_or(LISTEN),
            data,
            token,
            secret,
            heartbeat: timeouts.heartbeat(),
            import: place.import_mib.or(file.import_mib).map(|mib| mib.saturating_mul(1 << 20)),
            agents,
            settings,
            file: path,
        })
    }
}

fn settings(timeouts: &Timeouts, roots: Vec<PathBuf>, retention: Retention) -> Settings {
    let defaults = Settings::default();
    let or = |chosen: Option<file::Span>, default: Duration| chosen.map_or(default, |span| span.0);
    Settings {
        roots,
        connect: or(timeouts.connect, defaults.connect),
        start: or(timeouts.start, defaults.start),
        inactivity: or(timeouts.inactivity, defaults.inactivity),
        cancel: or(timeouts.cancel, defaults.cancel),
        recovery: or(timeouts.recovery, defaults.recovery),
        truth: or(timeouts.truth, defaults.truth),
        approval: timeouts.approval.map(|span| span.0).or(defaults.approval),
        on_timeout: match timeouts.on_timeout {
            None => defaults.on_timeout,
            Some(file::OnTimeout::Reject) => OnTimeout::Reject,
            Some(file::OnTimeout::Cancel) => OnTimeout::Cancel,
        },
        idle: or(timeouts.idle, defaults.idle),
        search: defaults.search,
        debounce: defaults.debounce,
        secrets: defaults.secrets,
        retention,
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, Place};
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    fn place(directory: &Path, file: &str) -> Place {
        let config = directory.join("turnstream.toml");
        std::fs::write(&config, file).unwrap();
        Place { config: Some(config), data: Some(directory.join("data")), ..Place::default() }
    }

    fn problem(file: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        Config::resolve(&place(directory.path(), file), None, None).unwrap_err().to_string()
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
        assert_eq!(config.secret.as_deref(), Some("t"));
    }

    #[test]
    fn a_file_that_cannot_be_used_is_refused_by_name() {
        for (file, told) in [
            ("lisen = 1", "unknown field `lisen`, expected one of `listen`"),
            ("[timeouts]\nstrat = 1", "unknown field `strat`"),
            (
                "[timeouts]\nstart = \"1 day\"",
                "\"1 day\" is not a time, for example 500ms, 30s, 10m, 1h or 30d",
            ),
            ("[retention]\nmax_size = 1", "unknown field `max_size`"),
            ("[retention]\nmax_bytes = \"lots\"", "\"lots\" is not a size, for example 500MB"),
            ("[agents.a]\nkind = \"nope\"", "unknown variant `nope`, expected `scripted` or `opencode`"),
            ("[agents.a]\nkind = \"scripted\"\npase_ms = 1", "unknown field `pase_ms`"),
            ("[agents.a]\nkind = \"opencode\"\nurl = \"http://127.0.0.1:1\"\ncommand = \"x\"", "not both"),
            ("[agents.a]\nkind = \"opencode\"\nuser = \"me\"", "without url"),
            ("[agents.\"../a\"]\nkind = \"scripted\"", "agent \"../a\" needs another name"),
            ("listen = \"here\"", "invalid socket address"),
            ("token = \"a b\"", "the token holds a space"),
        ] {
            let problem = problem(file);
            assert!(problem.contains(told), "{file}: {problem}");
        }
    }
}
