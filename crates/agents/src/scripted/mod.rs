//! An agent that plays scripts. Nothing behind it thinks: it is there so that a newcomer sees a live turn in the first
//! minute, and so that every fault an agent can have can be had on purpose. What it plays goes through the same
//! signals as the work of a real agent.
//!
//! A prompt whose text is a JSON object with a member `script` is played; else the configured script is; else the demo:
//!
//! ```json
//! {"script": [{"do": "text", "text": "Hello"}, {"do": "end", "stop_reason": "end_turn"}], "pace_ms": 0}
//! ```
//!
//! A turn begins before the first step, or at `begin`; it ends `completed`, `end_turn` after the last, unless a step says
//! otherwise. Every step may have `"when": "allowed"` or `"rejected"`: it is played only if the last ask came out so.
//! A bad script fails its turn with `invalid_request` and names the step. Members with a `?` may be left out.
//!
//! | step | what it does |
//! |---|---|
//! | `{"do":"begin"}` | begins the turn here; what is before comes before the turn |
//! | `{"do":"text","text":"Hi","chunks"?:2,"pace_ms"?:10,"unfinished"?:true}` | a message, word by word or in so many pieces |
//! | `{"do":"reasoning","text":"Hm"}`, `{"do":"plan","text":"1. Look"}` | the same, as thinking or as a plan |
//! | `{"do":"tool","name"?:"n","title"?:"t","input"?:{},"effect"?:{…},"ask"?:true,"if_rejected"?:"stop","output"?:["a"],"takes_ms"?:5,"fail"?:"no"}` | a tool call; rejected it fails, and the turn goes on (`go_on`) or ends `rejected` (`stop`) |
//! | its `effect` | `{"write":{"path":"a","text":"t"}}`, `{"append":{"path":"a","text":"t"}}`, `{"read":{"path":"a"}}`, `{"count":{"path":"a"}}` |
//! | `{"do":"question","questions":[{"id":"0","text":"DB?","options":[{"label":"PG"}]}],"if_rejected"?:"stop"}` | asks a person |
//! | `{"do":"at_once","steps":[{"do":"tool","ask":true},{"do":"question","questions":[…]}]}` | several calls and questions, all open at once |
//! | `{"do":"usage","usage"?:{"input":1},"cost"?:{"amount":0.1,"currency":"USD"},"context"?:{"used":1,"size":9}}` | tokens, money, context |
//! | `{"do":"attempt","model"?:"m"}`, `{"do":"attempt_end","finish"?:"stop","usage"?:{},"cost"?:{}}` | a model call |
//! | `{"do":"retry","attempt"?:2,"reason"?:"overloaded","wait_ms"?:5}` | the call is repeated: its unfinished items are void |
//! | `{"do":"process"}` | starts a real process with a child, in a group of their own; they live as long as the link |
//! | `{"do":"sleep","ms":5}`, `{"do":"stall"}` | waits; for ever |
//! | `{"do":"burst","count":1000,"bytes":64,"per_second"?:100}` | many pieces of one message |
//! | `{"do":"end","stop_reason"?:"max_tokens"}`, `{"do":"idle","stop_reason"?:"end_turn"}` | ends the turn, by its name or by going idle |
//! | `{"do":"fail","class":"overloaded","message":"m"}`, `{"do":"error",…}` | ends it as failed; reports an error and goes on |
//! | `{"do":"silent"}`, `{"do":"refuse","class":"auth","message":"m"}`, `{"do":"merge"}` | takes the prompt and never starts; will not have it; the next turn, by itself or of another client, names it too |
//! | `{"do":"crash","message"?:"m"}`, `{"do":"vanish"}` | the link is lost, and said to be; it ends without a word |
//! | `{"do":"garbage"}`, `{"do":"gap","text"?:"…"}`, `{"do":"duplicate","count":3}` | unreadable bytes; missed signals and their repair; repeated signals |
//! | `{"do":"late","what":"tool"\|"text"\|"idle"\|"done","at"?:"next_turn","after_ms"?:5}` | news of this turn after its end, or during the next |
//! | `{"do":"wake","after_ms"?:5,"steps":[…]}`, `{"do":"foreign","prompt":"p","after_ms"?:5,"steps":[…]}` | later, a turn by itself; one of another client |
//! | `{"do":"background","text":"t","after_ms"?:5}` | later, a message below the last tool call, in no turn |
//!
//! With a directory for its memory it behaves like an agent that outlives the gateway: see [`Config::memory`].

mod act;
mod afterwards;
mod demo;
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

pub use script::{Script, ScriptError};

use crate::agent::{Agent, ConnectError, Connecting, Description, Start, Stopping};
use crate::link::Link;
use memory::Memory;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use turnstream_model::id::SessionId;

/// The delay between pieces of text at which a person sees them stream.
const READABLE: Duration = Duration::from_millis(25);

/// How the scripted agent plays.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it remembers what it had of each session. Everything is durable there before it is acted on, so that a new
    /// link goes on where the last one ended, as if the agent had lived on meanwhile: a step that was begun is over, a
    /// tool that was begun and not noted as done is `unknown` and is not run again. Without it all dies with the link.
    pub memory: Option<PathBuf>,
    /// The delay between pieces of text, where a script says nothing else.
    pub pace: Duration,
    /// What is played for prompts that are no scripts; the demo where there is none.
    pub script: Option<Script>,
}

impl Default for Config {
    fn default() -> Self {
        Self { memory: None, pace: READABLE, script: None }
    }
}

/// The agent.
#[derive(Clone, Debug)]
pub struct Scripted {
    config: Arc<Config>,
}

impl Scripted {
    /// An agent that plays like that.
    pub fn new(config: Config) -> Self {
        Self { config: Arc::new(config) }
    }
}

impl Agent for Scripted {
    fn describe(&self) -> Description {
        Description {
            kind: "scripted",
            about: "Plays a script to show how a turn looks. Nothing behind it thinks.".to_owned(),
            version: None,
            problem: None,
            scripted: true,
        }
    }

    fn forget(&self, session: &SessionId) -> Stopping<'_> {
        let forgotten = self.config.memory.clone().map(|directory| {
            let session = session.clone();
            tokio::task::spawn_blocking(move || memory::forget(&directory, &session))
        });
        Box::pin(async move {
            let Some(forgotten) = forgotten else { return Ok(()) };
            let forgotten = forgotten.await.map_err(std::io::Error::other).and_then(|forgotten| forgotten);
            forgotten.map_err(|error| format!("what the scripted agent remembers cannot be removed: {error}"))
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
                    opened.map_err(std::io::Error::other).and_then(|opened| opened).map_err(|error| {
                        let problem = format!("its memory cannot be opened: {error}");
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
