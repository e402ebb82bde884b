//! The built-in agent: a small loop of model calls and tools, so that a gateway is useful with nothing but a
//! model endpoint. It runs inside of the gateway.
//!
//! - **Model calls** go through `turnstream_llm::client`, which reads the streams, retries, and writes the
//!   ledger. A tool call runs only when its step is complete.
//! - **The journal** of a session has every prompt, every complete answer, and the begin and the result of
//!   every tool. A record is durable before it is acted on. So a turn goes on after a crash: a model call is
//!   repeated, and a tool is not. A tool that was running is `unknown`, and its turn is lost.
//! - **Tools** for files stay below the session's directory. The tool bash is not confined.
//!
//! See `docs/builtin-agent.md`.

mod agent;
mod history;
mod journal;
mod recovery;
mod request;
mod session;
mod system_prompt;
mod tools;
mod turn;

pub use agent::{Builtin, BuiltinConfig};
