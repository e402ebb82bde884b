//! The program of an agent: where it is, its version, whether it is logged in, and what to do if it cannot be
//! used. Agents that need no configuration are found here.

#[cfg(test)]
mod documentation;
mod environment;
mod known;
mod login;
mod not_yet;
mod route;
mod search;
mod version;

pub use environment::passed;
pub use known::{ACP, Adapter, CLAUDE, CODEX, KNOWN, KnownAgent, OPENCODE};
pub use login::{FileAt, LoginFacts};
pub use not_yet::NotYet;
pub use route::{RouteForAgent, RoutedBy};
pub use search::{Found, discover, known_acp};

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;
use turnstream_adapter::{Choice, Description, Login};
use turnstream_agent_process::INHERITED;
use version::{VersionAnswer, VersionCommand};

/// How long a probe waits for the version. The command goes on, and a later probe has its answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether an agent is in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The configuration names it.
    Configured,
    /// It was found on `PATH`.
    Discovered,
}

/// The program of one agent.
#[derive(Debug)]
pub struct Program {
    known: &'static KnownAgent,
    command: PathBuf,
    origin: Origin,
    /// The whole environment in which it runs.
    env: Vec<(OsString, OsString)>,
    version: VersionCommand,
    /// It asks models by a route of the gateway, so it needs no login.
    has_route: bool,
}

impl Program {
    /// The program of a command, which runs with these variables besides those that every agent inherits.
    pub fn new(
        known: &'static KnownAgent,
        command: &Path,
        origin: Origin,
        env: &[(OsString, OsString)],
    ) -> Self {
        let inherited = INHERITED.into_iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
        let env = inherited.chain(env.iter().cloned()).collect();
        let (command, version) = (command.to_owned(), VersionCommand::default());
        Self { known, command, origin, env, version, has_route: false }
    }

    /// The same for an agent that asks models by a route of the gateway: it needs no login.
    #[must_use]
    pub fn with_route(self, has_route: bool) -> Self {
        Self { has_route, ..self }
    }

    /// Adds what is known of the program to the description of its agent. Starts nothing.
    pub fn describe(&self, description: Description) -> Description {
        let path = self.path();
        let answer = path.as_deref().and_then(|path| self.version.known(path));
        self.described(description, path, answer)
    }

    /// The same, after it was asked for its version.
    pub async fn probe(&self, description: Description) -> Description {
        let path = self.path();
        let answer = match &path {
            Some(path) => self.version.ask(path, &self.env, PATIENCE).await.or(Some(VersionAnswer::Late)),
            None => None,
        };
        self.described(description, path, answer)
    }

    /// Ends what a probe has started.
    pub fn stop(&self) {
        self.version.stop();
    }

    /// What to tell about a version that the agent itself has told.
    pub(crate) fn notice(&self, version: &str) -> Option<String> {
        version::notice(version, self.known.tested)
    }

    /// Where it is now.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        search::find(&self.command, self.variable("PATH").unwrap_or_default())
    }

    /// A variable of its environment. The last one of a name counts.
    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.env.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value.as_os_str())
    }

    fn described(
        &self,
        mut description: Description,
        path: Option<PathBuf>,
        answer: Option<VersionAnswer>,
    ) -> Description {
        let KnownAgent { title, tested, install, login, models, modes, .. } = self.known;
        let login = login.as_ref().filter(|_| !self.has_route);
        let login = login.map(|facts| (facts.state(|name| self.variable(name)), facts.command));
        description.discovered = self.origin == Origin::Discovered;
        if path.is_some() {
            description.login = login.map(|(state, _)| state);
            description.models = models.iter().copied().map(Choice::new).collect();
            description.modes = modes.iter().copied().map(Choice::new).collect();
        }
        let mut notice = None;
        match &answer {
            Some(VersionAnswer::Version(version)) => {
                notice = version::notice(version, tested);
                description.version = Some(version.clone());
            }
            Some(VersionAnswer::NoVersion) => {
                notice = Some("its version is not known: `--version` prints none".to_owned());
            }
            Some(VersionAnswer::Late) => {
                notice = Some("its version is not known yet: `--version` has not ended".to_owned());
            }
            Some(VersionAnswer::Failed(_)) | None => {}
        }
        let command = self.command.display();
        let problem = match (&path, answer, login) {
            (None, _, _) => Some((format!("{command} is not installed"), *install)),
            (Some(path), Some(VersionAnswer::Failed(failure)), _) => Some((
                format!("it does not work: `{} --version` failed: {failure}", path.display()),
                *install,
            )),
            (Some(_), _, Some((Login::LoggedOut, command))) => {
                Some((format!("{title} is not logged in"), Some(command)))
            }
            (Some(_), _, _) => None,
        };
        if let Some((problem, fix)) = problem {
            let way_out = fix.map_or_else(String::new, |fix| format!("; run `{fix}`"));
            description.problem = Some(format!("{problem}{way_out}"));
            description.fix = fix.map(str::to_owned);
        }
        description.notice = notice;
        description.path = path;
        description
    }
}

#[cfg(test)]
mod tests {
    use super::{CLAUDE, OPENCODE, Origin, Program};
    use std::ffi::OsString;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};
    use turnstream_adapter::{Choice, Description, Login};

    fn install(home: &Path, name: &str, body: &str) -> PathBuf {
        let path = home.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn claude(home: &Path, more: &[(&str, &str)]) -> Program {
        let mut env: Vec<(OsString, OsString)> = vec![("HOME".into(), home.into())];
        env.extend(more.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
        Program::new(&CLAUDE, &home.join("claude"), Origin::Discovered, &env)
    }

    fn base() -> Description {
        Description::new("claude", "about")
    }

    /// Probes until the version command has ended.
    async fn probed(program: &Program) -> Description {
        let start = Instant::now();
        loop {
            let description = program.probe(base()).await;
            let is_late = description.notice.as_ref().is_some_and(|notice| notice.contains("not known yet"));
            if !is_late {
                return description;
            }
            assert!(start.elapsed() < Duration::from_secs(300), "the command does not end");
        }
    }

    #[tokio::test]
    async fn a_program_that_works_is_described_with_version_login_and_choices() {
        let home = tempfile::tempdir().unwrap();
        let path = install(home.path(), "claude", "echo '2.1.197 (Claude Code)'");
        let program = claude(home.path(), &[("ANTHROPIC_API_KEY", "k")]);
        let expected = Description {
            version: Some("2.1.197".to_owned()),
            path: Some(path),
            discovered: true,
            login: Some(Login::LoggedIn),
            models: ["default", "opus", "sonnet", "haiku"].map(Choice::new).to_vec(),
            modes: ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
                .map(Choice::new)
                .to_vec(),
            ..base()
        };
        let unasked = Description { version: None, ..expected.clone() };
        assert_eq!(program.describe(base()), unasked, "a description starts nothing");
        assert_eq!(probed(&program).await, expected);
        assert_eq!(program.describe(base()), expected);
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn a_program_that_cannot_be_used_says_why_and_what_to_run() {
        let told = |description: Description| (description.problem.unwrap(), description.fix);
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("claude").display().to_string();
        let npm = "npm install -g @anthropic-ai/claude-code";
        assert_eq!(
            told(claude(home.path(), &[]).probe(base()).await),
            (format!("{path} is not installed; run `{npm}`"), Some(npm.to_owned()))
        );
        install(home.path(), "claude", "exit 7");
        assert_eq!(
            told(probed(&claude(home.path(), &[])).await),
            (
                format!("it does not work: `{path} --version` failed: exit status: 7; run `{npm}`"),
                Some(npm.to_owned())
            )
        );
        install(home.path(), "claude", "echo 9.9.9");
        let newer = probed(&claude(home.path(), &[])).await;
        assert_eq!(newer.login, Some(Login::LoggedOut));
        assert_eq!(
            newer.notice.as_deref(),
            Some("version 9.9.9 is newer than 2.1.325, the newest that was tested")
        );
        assert_eq!(
            told(newer),
            (
                "Claude Code is not logged in; run `claude auth login`".to_owned(),
                Some("claude auth login".to_owned())
            )
        );
    }

    #[test]
    fn a_bare_name_is_searched_on_the_path_of_the_agent() {
        let home = tempfile::tempdir().unwrap();
        let path = install(home.path(), "opencode", "echo 1.18.33");
        let env = [(OsString::from("PATH"), OsString::from(home.path()))];
        let program = Program::new(&OPENCODE, Path::new("opencode"), Origin::Configured, &env);
        let described = program.describe(Description::new("opencode", ""));
        assert_eq!((described.path, described.discovered, described.problem), (Some(path), false, None));
    }
}
