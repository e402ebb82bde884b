//! Checks of opencode without a session: whether its server answers, and which models it has.

use super::agent::{Opencode, Source};
use std::path::Path;
use std::time::Duration;
use turnstream_adapter::{Agent, Choice, Description, UnknownModel};
use turnstream_opencode_client::{
    Client, ClientError, ClientInfo, Directory, Model, PasswordSource, ServerState, USER,
};

/// How long a check may take.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// How many model names an error message lists.
const LISTED_MODELS: usize = 12;

impl Opencode {
    /// The description, after the program was asked for its version, or the server that runs elsewhere. A
    /// server that was started here, and runs, is asked for its models.
    pub(super) async fn probe_server(&self) -> Description {
        let launch = match &self.config.source {
            Source::Start(launch) => launch,
            Source::Attach { url, .. } => return self.probe_url(url).await,
        };
        let Some(program) = &self.program else { return self.undescribed() };
        if let (Ok(Some(client)), Ok(directory)) = (self.client_if_running(), Directory::new(&launch.cwd)) {
            self.learn_commands(&client, &directory);
        }
        let (mut description, models) =
            tokio::join!(program.probe(self.undescribed()), self.models_if_running(&launch.cwd));
        description.models = models.into_iter().map(Choice::new).collect();
        description
    }

    async fn probe_url(&self, url: &str) -> Description {
        let mut description = self.describe();
        let answer = match self.client_if_running() {
            Ok(Some(client)) => client.ping(PROBE_LIMIT).await,
            Ok(None) => return description,
            Err(error) => Err(error),
        };
        match answer {
            Ok(health) => description.version = Some(health.version),
            Err(error) => description.problem = Some(format!("the server at {url} cannot be used: {error}")),
        }
        description
    }

    /// The models of a server that runs, in this directory; none if there is no server, or no answer.
    async fn models_if_running(&self, cwd: &Path) -> Vec<String> {
        let (Ok(Some(client)), Ok(directory)) = (self.client_if_running(), Directory::new(cwd)) else {
            return Vec::new();
        };
        client.models(&directory, PROBE_LIMIT).await.unwrap_or_else(|error| {
            tracing::debug!(
                agent = %self.name, error = %error.for_log(),
                "cannot list the models of opencode"
            );
            Vec::new()
        })
    }

    /// Looks up a model, if a server runs that can be asked.
    pub(super) async fn find_model(&self, model: &str, cwd: &Path) -> Result<(), UnknownModel> {
        if Model::parse(model).is_none() {
            let problem = format!("the model {model:?} is not PROVIDER/MODEL; change it or leave it out");
            return Err(UnknownModel { problem, known: Vec::new() });
        }
        let known = self.models_if_running(cwd).await;
        // A server without any model is still being set up.
        if known.is_empty() || known.iter().any(|name| name == model) {
            return Ok(());
        }
        Err(UnknownModel { problem: unknown_model(model, &known), known })
    }

    /// A client of the server that runs, or of the configured address. Nothing is started or waited for.
    fn client_if_running(&self) -> Result<Option<Client>, ClientError> {
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

/// The error message for an unknown model. It lists models of the same provider first.
fn unknown_model(model: &str, known: &[String]) -> String {
    let provider = model.split('/').next().unwrap_or_default();
    let is_near = |name: &&String| name.split('/').next() == Some(provider);
    let near: Vec<&str> = known.iter().filter(is_near).map(String::as_str).collect();
    let offered = if near.is_empty() { known.iter().map(String::as_str).collect() } else { near };
    let shown = offered.iter().take(LISTED_MODELS).copied().collect::<Vec<_>>().join(", ");
    let more = known.len() - offered.len().min(LISTED_MODELS);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("there is no model {model:?}; there is {shown}{rest}")
}

#[cfg(test)]
mod tests {
    use super::unknown_model;

    #[test]
    fn models_of_the_same_provider_are_offered_first() {
        let known = ["a/one", "b/two", "b/three"].map(str::to_owned);
        assert_eq!(
            unknown_model("b/x", &known),
            "there is no model \"b/x\"; there is b/two, b/three and 1 more"
        );
        assert_eq!(unknown_model("c/x", &known), "there is no model \"c/x\"; there is a/one, b/two, b/three");
    }
}
