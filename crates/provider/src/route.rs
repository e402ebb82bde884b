//! One route to a provider.

use crate::key::{KeyError, KeySource};
use std::time::Duration;
use turnstream_llm::client::Route as Endpoint;
use turnstream_llm::{Format, Profile};

/// The version of the messages format that requests of this program name.
const MESSAGES_VERSION: &str = "2023-06-01";

/// A route to a provider. [`Routes`](crate::Routes) has checked it.
#[derive(Clone, Debug)]
pub struct Route {
    /// The name in the configuration.
    pub name: String,
    /// The base URL of the provider, as its own clients take it: `https://api.openai.com/v1`,
    /// `https://api.anthropic.com`.
    pub url: String,
    /// The wire format.
    pub format: Format,
    /// What is known about the provider's streams.
    pub profile: Profile,
    /// Whose key is sent, and who may use the route.
    pub access: Access,
    /// The model of requests that name none. As a fallback, the route asks for this model always.
    pub model: Option<String>,
    /// Routes that are asked when this one fails, in order.
    pub fallback: Vec<String>,
    /// Requests to this provider for one answer.
    pub attempts: u32,
    /// Until the first content of an answer.
    pub first_event: Duration,
    /// The longest silence of an answer that has begun.
    pub silence: Duration,
    /// The longest time that a request waits for further attempts, in all. A longer wait is passed on to the
    /// client.
    pub longest_wait: Duration,
    /// How long a request goes on whose client is gone.
    pub reattach: Duration,
}

/// Whose key a route sends, and who may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// The configured key. Clients need a token of the gateway.
    Configured(KeySource),
    /// None: the provider wants no key. Clients need a token of the gateway.
    Keyless,
    /// The client's own key, passed on. Clients need this secret in the path.
    PassThrough(KeySource),
}

/// What a provider is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An answer of a model.
    Generate,
    /// The tokens of a request, counted (messages format only).
    CountTokens,
    /// The list of models.
    Models,
}

impl Route {
    /// The default of [`Route::attempts`].
    pub const ATTEMPTS: u32 = 4;
    /// The default of [`Route::first_event`].
    pub const FIRST_EVENT: Duration = Duration::from_secs(300);
    /// The default of [`Route::silence`].
    pub const SILENCE: Duration = Duration::from_secs(300);
    /// The default of [`Route::longest_wait`].
    pub const LONGEST_WAIT: Duration = Duration::from_secs(30);
    /// The default of [`Route::reattach`].
    pub const REATTACH: Duration = Duration::from_secs(10);

    /// The profile of a route that names none.
    pub fn default_profile(format: Format) -> &'static Profile {
        match format {
            Format::Messages => &Profile::ANTHROPIC,
            Format::Chat | Format::Responses => &Profile::UNKNOWN,
        }
    }

    /// The full URL for an operation. The base URL of a messages provider may end with `/v1` or not.
    pub fn url_for(&self, operation: Operation) -> String {
        let base = self.url.trim_end_matches('/');
        let base = match self.format {
            Format::Messages => format!("{}/v1", base.strip_suffix("/v1").unwrap_or(base)),
            Format::Chat | Format::Responses => base.to_owned(),
        };
        let path = match (operation, self.format) {
            (Operation::Models, _) => "models",
            (Operation::CountTokens, _) => "messages/count_tokens",
            (Operation::Generate, Format::Chat) => "chat/completions",
            (Operation::Generate, Format::Responses) => "responses",
            (Operation::Generate, Format::Messages) => "messages",
        };
        format!("{base}/{path}")
    }

    /// The header that carries this key.
    pub fn key_header(&self, key: &str) -> (String, String) {
        match self.format {
            Format::Messages => ("x-api-key".to_owned(), key.to_owned()),
            Format::Chat | Format::Responses => ("authorization".to_owned(), format!("Bearer {key}")),
        }
    }

    /// The endpoint for answers, with the configured key.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the key cannot be read. A route that passes keys through has none of its own.
    pub fn endpoint(&self) -> Result<Endpoint, KeyError> {
        let mut headers = Vec::new();
        if self.format == Format::Messages {
            headers.push(("anthropic-version".to_owned(), MESSAGES_VERSION.to_owned()));
        }
        match &self.access {
            Access::Configured(source) => headers.push(self.key_header(source.read()?.expose())),
            Access::Keyless | Access::PassThrough(_) => {}
        }
        Ok(Endpoint {
            name: self.name.clone(),
            url: self.url_for(Operation::Generate),
            format: self.format,
            profile: self.profile.clone(),
            headers,
        })
    }
}
