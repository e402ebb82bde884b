//! The demo agent, of kind `scripted`: it plays scripts, and no model is behind it. It shows a newcomer a
//! live turn in the first minute, and it can play every fault that an agent can have. What it plays goes
//! through the same signals as the work of a real agent.
//!
//! If the text of a prompt is a JSON object with a member `script`, that is played; otherwise the
//! configured script, or the demo:
//!
//! ```json
//! {"script": [{"do": "text", "text": "Hello"}, {"do": "end", "stop_reason": "end_turn"}], "pace_ms": 0}
//! ```
//!
//! A turn begins before the first step, or at `begin`. It ends `completed`, `end_turn` after the last step,
//! unless a step says otherwise. A step with `"when": "allowed"` or `"rejected"` is played only if the last
//! permission had that outcome. A bad script fails its turn with `invalid_request` and names the step.
//! Members with a `?` are optional.
//!
//! | step | what it does |
//! |---|---|
//! | `{"do":"begin"}` | begins the turn here; earlier steps come before the turn |
//! | `{"do":"text","text":"Hi","chunks"?:2,"pace_ms"?:10,"unfinished"?:true}` | a message, word by word or in so many pieces |
//! | `{"do":"reasoning","text":"Hm"}`, `{"do":"plan","text":"1. Look"}` | the same, as reasoning or as a plan |
//! | `{"do":"tool","name"?:"n","title"?:"t","input"?:{},"effect"?:{…},"ask"?:true,"if_rejected"?:"stop","output"?:["a"],"takes_ms"?:5,"fail"?:"no"}` | a tool call; rejected it fails, and the turn goes on (`go_on`) or ends `rejected` (`stop`) |
//! | its `effect` | `{"write":{"path":"a","text":"t"}}`, `{"append":{"path":"a","text":"t"}}`, `{"read":{"path":"a"}}`, `{"count":{"path":"a"}}` |
//! | `{"do":"question","questions":[{"id":"0","text":"DB?","options":[{"label":"PG"}]}],"if_rejected"?:"stop"}` | asks a person |
//! | `{"do":"at_once","steps":[{"do":"tool","ask":true},{"do":"question","questions":[…]}]}` | several calls and questions, all open at once |
//! | `{"do":"usage","usage"?:{"input":1},"cost"?:{"amount":0.1,"currency":"USD"},"context"?:{"used":1,"size":9}}` | tokens, cost, context window |
//! | `{"do":"attempt","model"?:"m"}`, `{"do":"attempt_end","finish"?:"stop","usage"?:{},"cost"?:{}}` | a model call |
//! | `{"do":"retry","attempt"?:2,"reason"?:"overloaded","wait_ms"?:5}` | the model call is repeated: its unfinished items are void |
//! | `{"do":"process"}` | starts a real process with a child, in a group of their own; they live as long as the link |
//! | `{"do":"sleep","ms":5}`, `{"do":"stall"}` | waits; for ever |
//! | `{"do":"burst","count":1000,"bytes":64,"per_second"?:100}` | many pieces of one message |
//! | `{"do":"end","stop_reason"?:"max_tokens"}`, `{"do":"idle","stop_reason"?:"end_turn"}` | ends the turn, by its name or by going idle |
//! | `{"do":"fail","class":"overloaded","message":"m"}`, `{"do":"error",…}` | ends it as failed; reports an error and goes on |
//! | `{"do":"silent"}`, `{"do":"refuse","class":"auth","message":"m"}`, `{"do":"merge"}` | accepts the prompt and never starts; refuses it; the next turn, by itself or of another client, takes it |
//! | `{"do":"crash","message"?:"m"}`, `{"do":"vanish"}` | the link is lost, with a report; the link ends without a report |
//! | `{"do":"garbage"}`, `{"do":"gap","text"?:"…"}`, `{"do":"duplicate","count":3}` | unreadable bytes; missed signals and their repair; repeated signals |
//! | `{"do":"late","what":"tool"\|"text"\|"idle"\|"done","at"?:"next_turn","after_ms"?:5}` | news of this turn after its end, or during the next |
//! | `{"do":"wake","after_ms"?:5,"steps":[…]}`, `{"do":"foreign","prompt":"p","after_ms"?:5,"steps":[…]}` | later, a turn by itself; one of another client |
//! | `{"do":"background","text":"t","after_ms"?:5}` | later, a message below the last tool call, in no turn |
//!
//! With a directory for its memory it behaves like an agent that outlives the gateway: see
//! [`DemoConfig::memory`].

mod act;
mod afterwards;
mod effects;
mod memory;
mod pieces;
mod player;
mod process;
mod recovery;
mod scene;
mod script;
mod steps;
mod tools;
mod welcome;

pub use script::{DemoScript, DemoScriptError};

use memory::Memory;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use turnstream_adapter::{
    Agent, AgentError, ConnectError, Connecting, Description, Link, Start, StopError, Stopping,
};
use turnstream_model::id::SessionId;

/// The default delay between pieces of text: a person can watch them stream.
const DEFAULT_PACE: Duration = Duration::from_millis(25);

/// The configuration of the demo agent.
#[derive(Clone, Debug)]
pub struct DemoConfig {
    /// The directory of its memory, which makes it outlive the gateway.
    ///
    /// Everything is durable there before it is acted on. A new link goes on where the last one ended: a
    /// step that was begun is over. A tool that was begun and not noted as done is `unknown`, and is not
    /// run again. Without a directory everything ends with the link.
    pub memory: Option<PathBuf>,
    /// The delay between pieces of text, unless a script sets another.
    pub pace: Duration,
    /// The script for prompts that are no scripts. The default is the demo.
    pub script: Option<DemoScript>,
}

impl Default for DemoConfig {
    fn default() -> Self {
        Self { memory: None, pace: DEFAULT_PACE, script: None }
    }
}

/// The demo agent.
#[derive(Clone, Debug)]
pub struct DemoAgent {
    config: Arc<DemoConfig>,
}

/// Why the memory of the demo agent cannot be used.
#[derive(Debug, thiserror::Error)]
enum MemoryError {
    #[error("its memory cannot be opened: {0}")]
    Open(#[source] io::Error),
    #[error("what the scripted agent remembers cannot be removed: {0}")]
    Remove(#[source] io::Error),
}

impl AgentError for MemoryError {
    fn for_log(&self) -> String {
        self.to_string()
    }
}

impl DemoAgent {
    /// An agent with this configuration.
    pub fn new(config: DemoConfig) -> Self {
        Self { config: Arc::new(config) }
    }
}

impl Agent for DemoAgent {
    fn describe(&self) -> Description {
        let about = "Plays a script to show how a turn looks. Nothing behind it thinks.";
        Description { scripted: true, ..Description::new("scripted", about) }
    }

    fn forget(&self, session: &SessionId) -> Stopping<'_> {
        let forgotten = self.config.memory.clone().map(|directory| {
            let session = session.clone();
            tokio::task::spawn_blocking(move || memory::forget(&directory, &session))
        });
        Box::pin(async move {
            let Some(forgotten) = forgotten else { return Ok(()) };
            let forgotten = forgotten.await.map_err(io::Error::other).and_then(|forgotten| forgotten);
            forgotten.map_err(|error| StopError::new(MemoryError::Remove(error)))
        })
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        Box::pin(async move {
            let memory = match self.config.memory.clone() {
                None => Memory::default(),
                Some(directory) => {
                    let session = start.session.clone();
                    let opened =
                        tokio::task::spawn_blocking(move || Memory::open(&directory, &session)).await;
                    opened.map_err(io::Error::other).and_then(|opened| opened).map_err(|error| {
                        let problem = Arc::new(MemoryError::Open(error));
                        ConnectError::Unavailable { agent: "scripted".to_owned(), problem }
                    })?
                }
            };
            let config = Arc::clone(&self.config);
            Ok(Link::spawn(move |commands, observer| {
                player::adapt(start, config, memory, commands, observer)
            }))
        })
    }

    fn outlives_gateway(&self) -> bool {
        self.config.memory.is_some()
    }
}
