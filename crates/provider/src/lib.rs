//! Routes to model providers (`[llm.routes.NAME]`): where a provider is, which format it speaks, where its
//! key is, and what takes over when it fails.
//!
//! [`Routes`] holds the routes of a configuration, checked. [`Route::endpoint`] is an address that
//! [`turnstream_llm::client::Client`] can ask.

mod agent_route;
mod key;
mod route;
mod routes;

pub use agent_route::{AgentRoute, AgentSecret, Asker};
pub use key::{Key, KeyError, KeySource};
pub use route::{Access, Operation, Route};
pub use routes::{RouteError, Routes};
