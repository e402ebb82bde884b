//! The built-in agent, with a provider on a real socket and a ledger on a real disk.

mod cancel;
mod damage;
mod deaths;
mod people;
mod turns;

use crate::support::Keeper;
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use turnstream_agents::Agent;
use turnstream_agents::builtin::{Builtin, BuiltinConfig};
use turnstream_fake_provider::{Completion, Part, Provider, Script, Step};
use turnstream_llm::client::{Client, Environment, Settings};
use turnstream_llm::wait::{Clock, SystemClock};
use turnstream_llm::{Format, Profile};
use turnstream_log::Attempts;
use turnstream_model::fold::Item;
use turnstream_model::time::Time;
use turnstream_provider::{Access, Route};
use turnstream_redact::Rules;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(300);

const FORMATS: [Format; 3] = [Format::Chat, Format::Responses, Format::Messages];

/// Clocks that jump to the end of every sleep, so that no retry is waited for.
struct QuickClock(Mutex<Duration>);

impl Clock for QuickClock {
    fn wall(&self) -> Time {
        Time::now().plus_millis(self.0.lock().unwrap().as_millis() as u64)
    }

    fn elapsed(&self) -> Duration {
        SystemClock.elapsed() + *self.0.lock().unwrap()
    }

    fn sleep(&self, how_long: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        *self.0.lock().unwrap() += how_long;
        Box::pin(tokio::task::yield_now())
    }
}

/// The agent of one session, and what stands around it.
struct Bench {
    keeper: Keeper,
    provider: Provider,
    attempts: Attempts,
    state: TempDir,
}

impl Bench {
    async fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::with(Format::Chat, steps, true).await
    }

    async fn in_format(format: Format, steps: impl IntoIterator<Item = Step>) -> Self {
        Self::with(format, steps, true).await
    }

    /// Waits take their time.
    async fn slow(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::with(Format::Chat, steps, false).await
    }

    async fn with(format: Format, steps: impl IntoIterator<Item = Step>, is_quick: bool) -> Self {
        let provider = Provider::start(Script::new(steps)).await.unwrap();
        let state = TempDir::new().unwrap();
        let attempts = Attempts::open(state.path()).unwrap();
        let clock: Arc<dyn Clock> = match is_quick {
            true => Arc::new(QuickClock(Mutex::new(Duration::ZERO))),
            false => Arc::new(SystemClock),
        };
        let environment = Environment {
            ledger: Arc::new(attempts.clone()),
            waits: Arc::new(attempts.clone()),
            clock,
            redact: Arc::new(Rules::standard()),
        };
        let url = match format {
            Format::Chat | Format::Responses => provider.openai_base_url(),
            Format::Messages => provider.base_url(),
        };
        let route = Route {
            name: "main".to_owned(),
            url,
            format,
            profile: Profile::UNKNOWN,
            access: Access::Keyless,
            model: Some("scripted".to_owned()),
            fallback: Vec::new(),
            attempts: Route::ATTEMPTS,
            first_event: Route::FIRST_EVENT,
            silence: Route::SILENCE,
            longest_wait: Route::LONGEST_WAIT,
            reattach: Route::REATTACH,
        };
        let config = BuiltinConfig {
            route: Arc::new(route),
            client: Client::new(Settings::default(), environment).unwrap(),
            ledger: Arc::new(attempts.clone()),
            state: state.path().join("journals"),
            secrets: Rules::standard(),
            env: Vec::new(),
            most_steps: Some(20),
            most_output: None,
            discovered: false,
        };
        let agent: Arc<dyn Agent> = Arc::new(Builtin::new("builtin", config));
        let keeper = Keeper::with_agent(agent).await;
        Self { keeper, provider, attempts, state }
    }

    /// Sends a prompt, and waits for the end of its turn.
    async fn run(&mut self, text: &str) {
        self.keeper.prompt(text).await.unwrap();
        self.keeper.until_quiet().await.unwrap();
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.keeper.cwd.path().join(name), text).unwrap();
    }

    /// The bodies of all model calls.
    fn bodies(&self) -> Vec<Value> {
        self.provider.calls().into_iter().map(|call| call.body).collect()
    }

    /// The journal of the session.
    fn journal(&self) -> String {
        std::fs::read_to_string(self.state.path().join("journals/ses_1.jsonl")).unwrap()
    }

    fn tools(&self) -> Vec<&Item> {
        self.keeper.items().iter().filter(|item| item.tool.is_some()).collect()
    }

    /// The result of a tool as the log shows it.
    fn result(&self, place: usize) -> String {
        let tool = self.tools()[place].tool.clone().unwrap();
        tool.output.unwrap()["output"].as_str().unwrap().to_owned()
    }
}

fn call(name: &str, arguments: Value) -> Step {
    Step::new(Completion::of([Part::tool_call(name, arguments)]))
}

fn bash(command: &str) -> Step {
    call("bash", json!({ "command": command }))
}
