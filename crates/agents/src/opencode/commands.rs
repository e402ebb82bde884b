//! The commands of opencode: those that every server has, and those that a server was found to have.

use super::agent::Opencode;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;
use turnstream_adapter::Choice;
use turnstream_opencode_client::{COMPACT, Client, CommandInfo, Directory};

/// How long a server is asked for its commands. Nobody waits for it.
const LIMIT: Duration = Duration::from_secs(10);

/// The commands of opencode 1.18.33 itself, until its server was asked.
pub(super) fn usual_commands() -> BTreeMap<String, Choice> {
    let choice = |(id, about): (&str, &str)| {
        (id.to_owned(), Choice { id: id.to_owned(), about: Some(about.to_owned()) })
    };
    let usual = [
        (COMPACT, "shorten the conversation"),
        ("init", "write an AGENTS.md for this project"),
        ("review", "review changes"),
    ];
    usual.into_iter().map(choice).collect()
}

impl Opencode {
    /// Asks the server for its commands in this directory, in the background.
    pub(super) fn learn_commands(&self, client: &Client, directory: &Directory) {
        let (client, directory, known) = (client.clone(), directory.clone(), self.commands.clone());
        let agent = self.name.clone();
        tokio::spawn(async move {
            match client.commands(&directory, LIMIT).await {
                Ok(commands) => {
                    let choices = commands.into_iter().map(|CommandInfo { name, description }| {
                        (name.clone(), Choice { id: name, about: description })
                    });
                    // The map is valid also after a panic of its holder.
                    known.lock().unwrap_or_else(PoisonError::into_inner).extend(choices);
                }
                Err(error) => {
                    tracing::debug!(%agent, error = %error.for_log(), "cannot list the commands of opencode");
                }
            }
        });
    }
}
