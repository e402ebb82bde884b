//! What is known of opencode before a session uses it: whether its server answers, and which models it has.

use super::agent::{Opencode, Source};
use super::client::Client;
use super::directory::Directory;
use super::error::ClientError;
use super::password::{PasswordSource, USER};
use super::prompt::Model;
use super::serve::ServerState;
use super::settings::ClientInfo;
use crate::agent::{Agent, Description, UnknownModel};
use std::path::Path;
use std::time::Duration;

/// How long somebody who only asks is made to wait.
const SOON: Duration = Duration::from_secs(2);

/// How many names a message shows.
const SHOWN: usize = 12;

impl Opencode {
    /// The description, and of a server that was found running whether it answers.
    pub(super) async fn look(&self) -> Description {
        let mut description = self.describe();
        let Source::Attach { url, .. } = &self.config.source else { return description };
        let answer = match self.visitor() {
            Ok(Some(client)) => client.knock(SOON).await,
            Ok(None) => return description,
            Err(error) => Err(error),
        };
        match answer {
            Ok(health) => description.version = Some(health.version),
            Err(error) => description.problem = Some(format!("the server at {url} cannot be used: {error}")),
        }
        description
    }

    /// Looks a model up, if a server can be asked right now.
    pub(super) async fn find_model(&self, model: &str, cwd: &Path) -> Result<(), UnknownModel> {
        if Model::parse(model).is_none() {
            let problem = format!("the model {model:?} is not PROVIDER/MODEL; change it or leave it out");
            return Err(UnknownModel { problem, known: Vec::new() });
        }
        let (Ok(Some(client)), Ok(directory)) = (self.visitor(), Directory::new(cwd)) else { return Ok(()) };
        match client.models(&directory, SOON).await {
            Ok(known) if known.iter().any(|name| name == model) => Ok(()),
            // A server without a single model is one that is still being set up.
            Ok(known) if !known.is_empty() => Err(UnknownModel { problem: missing(model, &known), known }),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// A client for a short visit: of the server that runs, or of the one that was named. One that is only
    /// being started, or is down, is not waited for.
    fn visitor(&self) -> Result<Option<Client>, ClientError> {
        let held = self.server.try_lock();
        let running = held.ok().and_then(|held| {
            let (server, client) = held.as_ref()?;
            matches!(server.state(), ServerState::Ready { .. }).then(|| client.clone())
        });
        match (running, &self.config.source) {
            (Some(client), _) => Ok(Some(client)),
            (None, Source::Start(_)) => Ok(None),
            (None, Source::Attach { url, password, user }) => {
                let user = user.clone().unwrap_or_else(|| USER.to_owned());
                let password = password.clone().with_user(user);
                Client::new(url, password, self.config.timeouts, ClientInfo::default()).map(Some)
            }
        }
    }
}

/// What there is instead: models of the same provider first.
fn missing(model: &str, known: &[String]) -> String {
    let provider = model.split('/').next().unwrap_or_default();
    let is_near = |name: &&String| name.split('/').next() == Some(provider);
    let near: Vec<&str> = known.iter().filter(is_near).map(String::as_str).collect();
    let offered = if near.is_empty() { known.iter().map(String::as_str).collect() } else { near };
    let shown = offered.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    let more = known.len() - offered.len().min(SHOWN);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("there is no model {model:?}; there is {shown}{rest}")
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn models_of_the_same_provider_are_offered_first() {
        let known = ["a/one", "b/two", "b/three"].map(str::to_owned);
        assert_eq!(missing("b/x", &known), "there is no model \"b/x\"; there is b/two, b/three and 1 more");
        assert_eq!(missing("c/x", &known), "there is no model \"c/x\"; there is a/one, b/two, b/three");
    }
}
