//! One trial: an agent, a fault, alone or behind the proxy.

use super::driver::{Driver, Said, TEXT};
use super::fault::ProviderFault;
use crate::support::{Home, Serving};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;
use turnstream_fake_provider::{Completion, Part, Provider, Script, Step, WireFormat};
use turnstream_testkit::agents::Opencode;

/// How long a turn may take before it counts as hanging. Without a fault it takes a few seconds.
const LIMIT: Duration = Duration::from_secs(150);
/// The longest silence that the proxy accepts in the trials.
const SILENCE: &str = "20s";
const SECRET: &str = "0123456789abcdef0123456789abcdef";
const PROMPT: &str = "Run the two commands.";
/// The command, cut where the arguments are cut. Each half leaves a line in the file.
const COMMAND: [&str; 2] = ["echo one >> ran.txt", "; echo two >> ran.txt"];

/// Whether the agent talks to the provider itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Alone,
    Proxy,
}

/// A trial that is ready to run.
pub(super) struct Trial {
    pub(super) fault: &'static ProviderFault,
    pub(super) place: Place,
    provider: Provider,
    format: WireFormat,
}

/// What was seen.
#[derive(Debug)]
pub(super) struct Found {
    outcome: Outcome,
    model_calls: usize,
    /// Commands that were run in part, or once too often.
    pub(super) wrong_calls: usize,
}

#[derive(Debug)]
enum Outcome {
    /// The agent ended its turn, and the command was run once.
    Done,
    /// The agent ended its turn as if all was well. The file has these lines.
    NotDone(#[allow(dead_code, reason = "for the output of the test")] String),
    /// The agent ended its turn with an error.
    Failed(#[allow(dead_code, reason = "for the output of the test")] String),
    /// The turn did not end in time.
    Hangs,
}

impl Place {
    pub(super) const ALL: [Self; 2] = [Self::Alone, Self::Proxy];

    /// The column of the page.
    pub(super) fn column(self, agent: &str) -> String {
        match self {
            Self::Alone => format!("{agent} alone"),
            Self::Proxy => format!("{agent} behind the proxy"),
        }
    }
}

impl Trial {
    /// A provider whose first answer has the fault. All later ones are whole.
    pub(super) async fn new<D: Driver>(fault: &'static ProviderFault, place: Place) -> Self {
        let answer = Completion::of([Part::text(TEXT), D::shell(COMMAND)]);
        let faulty = fault.step(D::FORMAT, &D::asked(), answer.clone(), &D::MARKS);
        let script = Script::new([
            Step::text("A title").for_model(Opencode::TITLE_MODEL).always(),
            faulty.before_tools(),
            Step::new(answer).before_tools().always(),
            Step::text("Both commands were run.").after_tools().always(),
        ])
        .created(Opencode::QUIET_TIME);
        Self { fault, place, provider: Provider::start(script).await.unwrap(), format: D::FORMAT }
    }

    /// The name of its route.
    fn route(&self) -> String {
        self.fault.name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase()
    }

    /// Sends the prompt to a new agent, and looks at what it did.
    pub(super) async fn run<D: Driver>(&self, gateway: &str) -> Found {
        let base = match self.place {
            Place::Alone => self.provider.base_url(),
            Place::Proxy => format!("http://{gateway}/llm/{}/{SECRET}", self.route()),
        };
        let mut agent = D::start(&base).await.unwrap();
        let said = match tokio::time::timeout(LIMIT, agent.turn(PROMPT)).await {
            Ok(said) => Some(said.unwrap()),
            Err(_) => None,
        };
        let ran = read(&agent.work());
        let model_calls = self.provider.calls().iter().filter(|call| call.asked.model == D::MODEL).count();
        let outcome = match said {
            None => Outcome::Hangs,
            Some(Said::Failed(words)) => Outcome::Failed(words),
            Some(Said::Completed) if ran == "one\ntwo\n" => Outcome::Done,
            Some(Said::Completed) => Outcome::NotDone(ran.clone()),
        };
        Found { outcome, model_calls, wrong_calls: wrong_calls(&ran) }
    }
}

impl Found {
    /// As on the page.
    pub(super) fn cell(&self) -> String {
        let outcome = match &self.outcome {
            Outcome::Done => "done",
            Outcome::NotDone(_) => "**not done**",
            Outcome::Failed(_) => "**failed**",
            Outcome::Hangs => "**hangs**",
        };
        let calls =
            if self.model_calls == 1 { "1 call".to_owned() } else { format!("{} calls", self.model_calls) };
        let wrong = match self.wrong_calls {
            0 => "0 wrong".to_owned(),
            wrong => format!("**{wrong} wrong**"),
        };
        format!("{outcome}; {calls}; {wrong}")
    }
}

/// A gateway with a route to the provider of each trial.
pub(super) fn gateway(trials: &[Trial]) -> Gateway {
    let home = Home::new();
    let mut config = String::new();
    for trial in trials.iter().filter(|trial| trial.place == Place::Proxy) {
        let (format, url) = match trial.format {
            WireFormat::Chat => ("chat", trial.provider.openai_base_url()),
            WireFormat::Responses => ("responses", trial.provider.openai_base_url()),
            WireFormat::Messages => ("messages", trial.provider.base_url()),
        };
        let route = trial.route();
        // Writing to a String does not fail.
        let _ = write!(
            config,
            "[llm.routes.{route}]\nurl = {url:?}\nformat = {format:?}\npass_keys = true\nsecret_env = \
             \"ROUTE_SECRET\"\nsilence = {SILENCE:?}\n"
        );
    }
    std::fs::write(home.path("turnstream.toml"), config).unwrap();
    let path = home.path("turnstream.toml").display().to_string();
    let serving = home.serve_armed(&["--config", &path], |command| {
        command.env("ROUTE_SECRET", SECRET);
    });
    Gateway { address: serving.address.clone(), _serving: serving, _home: home }
}

/// A running gateway, with its home.
pub(super) struct Gateway {
    pub(super) address: String,
    // The order matters: the gateway ends before its home is removed.
    _serving: Serving,
    _home: Home,
}

/// What the commands have written.
fn read(work: &Path) -> String {
    std::fs::read_to_string(work.join("ran.txt")).unwrap_or_default()
}

/// Runs of a part of the command, and whole runs after the first.
fn wrong_calls(ran: &str) -> usize {
    let (mut whole, mut parts, mut rest) = (0_usize, 0, ran);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("one\ntwo\n") {
            (whole, rest) = (whole + 1, after);
        } else {
            parts += 1;
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        }
    }
    parts + whole.saturating_sub(1)
}

#[test]
fn a_part_of_the_command_and_a_second_run_are_wrong() {
    assert_eq!(["", "one\ntwo\n"].map(wrong_calls), [0, 0]);
    assert_eq!(["one\n", "one\ntwo\none\ntwo\n", "one\none\ntwo\n", "two\n"].map(wrong_calls), [1, 1, 1, 1]);
}
