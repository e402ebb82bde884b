//! An agent that is installed, and that this version of turnstream cannot run.

use super::known::KnownAgent;
use super::search::Found;
use std::sync::Arc;
use turnstream_adapter::{Agent, AgentError, ConnectError, Connecting, Description, Start};

/// The agent. It is listed with the reason why it cannot be used.
pub struct NotYet {
    name: String,
    found: Found,
}

/// Why it cannot be used.
#[derive(Debug, thiserror::Error)]
enum NoAdapter {
    #[error("this version of turnstream cannot run {0} yet")]
    Kind(&'static str),
    #[error(
        "turnstream was not tested with {title}; if it speaks ACP, configure it: kind = \"acp\", command = \
         [{command:?}, …]"
    )]
    Acp { title: &'static str, command: &'static str },
}

impl AgentError for NoAdapter {
    fn for_log(&self) -> String {
        self.to_string()
    }
}

impl NoAdapter {
    fn of(known: &KnownAgent) -> Self {
        match known.kind {
            "acp" => Self::Acp { title: known.title, command: known.command },
            _ => Self::Kind(known.title),
        }
    }
}

impl NotYet {
    /// The agent of that name.
    pub fn new(name: impl Into<String>, found: Found) -> Self {
        Self { name: name.into(), found }
    }
}

impl Agent for NotYet {
    fn describe(&self) -> Description {
        let Found { known, path } = &self.found;
        Description {
            problem: Some(NoAdapter::of(known).to_string()),
            path: Some(path.clone()),
            discovered: true,
            ..Description::new(known.kind, known.title)
        }
    }

    fn connect(&self, _start: Start) -> Connecting<'_> {
        let problem = Arc::new(NoAdapter::of(self.found.known));
        let error = ConnectError::Unavailable { agent: self.name.clone(), problem };
        Box::pin(std::future::ready(Err(error)))
    }
}
