//! The stage of an agent: a gateway with that agent, and a provider that plays the scripts of all exits.

use super::exit::{Exit, Says};
use super::exits::{README, emoji};
use super::subject::{Settled, Subject};
use crate::opencode_events::Watch;
use crate::support::{Home, Serving, read, token_of};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use turnstream_fake_provider::{
    Asked, Completion, Delivery, Fault, Part, Provider, Refusal, RetryAfter, Script, Step,
};

/// On a busy machine an agent takes its time to start, to begin and to stop.
const PATIENT: &str = "[timeouts]\nconnect = \"5m\"\nstart = \"5m\"\nrecovery = \"5m\"\ncancel = \"1m\"\n";
/// The limit of a silent turn where a turn is to be silent.
const SHORT_INACTIVITY: &str = "15s";
/// The name of the agent in the configuration.
pub(super) const AGENT: &str = "subject";

/// A running gateway, with everything around it.
pub(super) struct Stage {
    // The order matters: the gateway ends its agents before their home is removed.
    serving: Mutex<Serving>,
    /// A client of opencode's API, which sees every exit too.
    pub(super) watch: Watch,
    pub(super) agent: Box<dyn Settled>,
    pub(super) home: Home,
    provider: Provider,
    pub(super) runtime: tokio::runtime::Runtime,
}

impl Stage {
    /// A stage for these exits of an agent.
    pub(super) fn open<'a>(subject: &dyn Subject, exits: impl IntoIterator<Item = &'a Exit>) -> Self {
        let home = Home::new();
        let steps = exits.into_iter().flat_map(|exit| {
            let (mark, cwd) = (mark(exit), cwd(&home, exit));
            exit.model.iter().map(move |says| step(subject, *says, &cwd).for_any_user_text(&mark))
        });
        let script = Script::new(subject.side_steps().into_iter().chain(steps));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let provider = runtime.block_on(Provider::start(script)).unwrap();
        let agent = subject.settle(&provider);
        std::fs::write(home.path("turnstream.toml"), format!("{PATIENT}{}", agent.table())).unwrap();
        let (serving, watch) = (serve(&home, None), Watch::default());
        watch.open(&serving.address);
        Self { serving: Mutex::new(serving), watch, agent, home, provider, runtime }
    }

    /// Makes the working directory of an exit.
    pub(super) fn prepare(&self, exit: &Exit) -> PathBuf {
        let cwd = cwd(&self.home, exit);
        std::fs::create_dir(&cwd).unwrap();
        std::fs::write(cwd.join("README.md"), README).unwrap();
        std::fs::write(cwd.join("emoji.txt"), emoji()).unwrap();
        self.agent.prepare(&cwd, exit.permissions);
        cwd
    }

    /// The address of the gateway.
    pub(super) fn address(&self) -> String {
        self.serving().address.clone()
    }

    /// Ends the gateway in order. The next one gives up a silent turn early.
    pub(super) fn restart_with_short_inactivity(&self) {
        self.replace(Signal::TERM, Some(SHORT_INACTIVITY));
    }

    /// Kills the gateway and starts another one.
    pub(super) fn kill_gateway(&self) {
        self.replace(Signal::KILL, None);
    }

    /// Sends a signal to every process of the agent's own program. There has to be one.
    pub(super) fn signal_agent(&self, signal: Signal) {
        let processes = self.agent_processes();
        assert!(!processes.is_empty(), "no process of {} runs", self.agent.program().display());
        for process in processes {
            // One that has just ended is no longer there.
            let _ = kill_process(process, signal);
        }
    }

    /// The agent's own processes: those of its program with its home. Commands that it runs are others.
    fn agent_processes(&self) -> Vec<Pid> {
        let (program, home) = (self.agent.program(), self.agent.home().display().to_string());
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let process = |entry: std::fs::DirEntry| {
            let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            let is_its_own = std::fs::read_link(entry.path().join("exe")).ok()? == program;
            (is_its_own && String::from_utf8_lossy(&environment).contains(&home)).then_some(pid)
        };
        entries.filter_map(process).collect()
    }

    /// A text of the gateway.
    pub(super) fn get_text(&self, path: &str) -> String {
        let address = self.address();
        let url = format!("http://{address}{path}");
        self.runtime.block_on(async {
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let answer = client.get(url).bearer_auth(token_of(&address)).send().await.unwrap();
            answer.error_for_status().unwrap().text().await.unwrap()
        })
    }

    /// Whether the gateway has no link to any agent.
    pub(super) fn has_no_link(&self) -> bool {
        self.get_text("/metrics").lines().any(|line| line == "turnstream_agents_live 0")
    }

    /// The calls to the model so far.
    pub(super) fn calls(&self) -> Vec<Asked> {
        self.provider.calls().into_iter().map(|call| call.asked).collect()
    }

    /// What the gateway has written to its standard error.
    pub(super) fn gateway_errors(&self) -> String {
        read(&self.home.path("serve.err"))
    }

    /// A data directory has one gateway: the old one is gone before the next one starts.
    fn replace(&self, signal: Signal, inactivity: Option<&str>) {
        let mut serving = self.serving();
        crate::support::send(&serving.child, signal);
        serving.child.wait().unwrap();
        *serving = serve(&self.home, inactivity);
        self.watch.open(&serving.address);
    }

    /// A failed exit must not fail the others.
    fn serving(&self) -> MutexGuard<'_, Serving> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn serve(home: &Home, inactivity: Option<&str>) -> Serving {
    let config = home.path("turnstream.toml").display().to_string();
    home.serve_armed(&["--config", &config], |command| {
        if let Some(limit) = inactivity {
            command.env("TURNSTREAM_TIMEOUTS_INACTIVITY", limit);
        }
    })
}

/// What tells the prompts of an exit, and so its calls to the model, from all others.
pub(super) fn mark(exit: &Exit) -> String {
    format!("Exit [{}].", exit.name)
}

fn cwd(home: &Home, exit: &Exit) -> PathBuf {
    let name: String = exit.name.chars().filter(char::is_ascii_alphanumeric).collect();
    home.path("work").join(name)
}

/// The table of an agent that is started with a command and an environment.
pub(super) fn table(kind: &str, command: &Path, env: Vec<(OsString, OsString)>) -> String {
    let env: Vec<String> = env
        .into_iter()
        .map(|(name, value)| format!("{} = {:?}", name.display(), value.into_string().unwrap()))
        .collect();
    let env = env.join(", ");
    format!("[agents.{AGENT}]\nkind = {kind:?}\ncommand = {command:?}\nenv = {{ {env} }}\n")
}

fn step(subject: &dyn Subject, says: Says, cwd: &Path) -> Step {
    match says {
        Says::Text(text) => Step::text(text),
        Says::SlowText(text) => {
            Step::text(text).delivered(Delivery { before_delta_ms: 250, ..Delivery::default() })
        }
        Says::StalledText(text) => Step::text(text).fault(Fault::Stall {
            after: subject.bytes_before_stall(),
            lasts_ms: None,
            comment_every_ms: None,
        }),
        Says::Call(tool) => Step::new(Completion::of([subject.call(tool, cwd)])),
        Says::Nothing => Step::new(Completion::of([] as [Part; 0])).always(),
        Says::Refusal => Step::new(Refusal::new(400, "invalid_request_error", "That is no question")),
        Says::Overload => {
            Step::new(Refusal::new(529, "overloaded_error", "Overloaded").retry_after(RetryAfter::Seconds(1)))
        }
    }
}
