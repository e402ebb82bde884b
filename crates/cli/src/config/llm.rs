//! `[llm]`: what is known about providers ([llm.md](../../../../docs/llm.md)), and the routes to them.

use super::duration::{Age, Span};
use super::keys::keys;
use super::{ConfigError, Place, file};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use turnstream_llm::{Format, Profile, ProfileError, ProfileSettings};
use turnstream_provider::{Access, KeySource, Route, RouteError, Routes};

/// `[llm]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct LlmTable {
    profiles: BTreeMap<String, ProfileSettings>,
    routes: BTreeMap<String, RouteKeys>,
}

/// What a command that reads streams needs of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LlmKeys {
    llm: LlmTable,
}

keys! {
    /// `[llm.routes.NAME]`: a route to a provider.
    pub(super) struct RouteKeys in "llm.routes.NAME" {
        /// The base URL of the provider, as its own clients take it. A route needs it.
        url: String = "\"https://api.openai.com/v1\"", file;
        /// What the provider speaks: `chat`, `responses` or `messages`. A route needs it.
        format: FormatWord = "\"chat\"", file;
        /// The variable of the gateway that holds the provider's key. Default: none, no key is sent.
        key_env: String = "\"OPENAI_API_KEY\"", file;
        /// The file that holds the key, instead of a variable. It is read for each request.
        key_file: PathBuf = "\"/run/secrets/openai\"", file;
        /// `true`: clients send their own key, and need the secret of the route in the path.
        /// Default: `false`.
        pass_keys: bool = "false", file;
        /// The variable that holds this secret, at least 32 characters. Only with `pass_keys`.
        secret_env: String = "\"LLM_ROUTE_SECRET\"", file;
        /// The file that holds the secret, instead of a variable.
        secret_file: PathBuf = "\"/run/secrets/route\"", file;
        /// What is known about the provider's streams: a [profile](llm.md#profiles).
        /// Default: `anthropic` for `messages`, otherwise `unknown`.
        profile: String = "\"openai\"", file;
        /// The model of requests that name none. As a fallback, the route always asks for this model.
        model: String = "\"gpt-5\"", file;
        /// Routes of the same format that are asked when this one fails, in order.
        fallback: Vec<String> = "[\"backup\"]", file;
        /// Requests to the provider for one answer. Default: 4.
        attempts: u64 = "4", file, zero "ask nobody" "ask up to 4 times";
        /// Until the first content of an answer. Default: 5 minutes.
        first_event: Span = "\"5m\"", file;
        /// The longest silence of an answer that has begun. Default: 5 minutes.
        silence: Span = "\"5m\"", file;
        /// The longest time that a request waits for further attempts, in all. A longer wait is passed on to
        /// the client, as 429 with `retry-after`. Default: 30 seconds.
        longest_wait: Span = "\"30s\"", file;
        /// How long a request goes on whose client is gone. The same request gets its answer in that time.
        /// 0 cancels at once. Default: 10 seconds.
        reattach: Age = "\"10s\"", file;
    }
}

/// The key `format`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FormatWord {
    Chat,
    Responses,
    Messages,
}

/// Why the routes of a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RouteKeysError {
    #[error("[llm.routes.{name}]: {problem}")]
    Keys { name: String, problem: String },
    #[error("[llm.routes.{name}]: there is no profile {profile:?}; there are {known}")]
    Profile { name: String, profile: String, known: String },
    #[error(transparent)]
    Route(#[from] RouteError),
}

impl LlmTable {
    /// The configured profiles, checked.
    pub(super) fn profiles(self) -> Result<Vec<Profile>, ProfileError> {
        self.profiles.into_iter().map(|(name, table)| table.profile(&name)).collect()
    }

    /// The configured routes, checked.
    pub(super) fn routes(mut self) -> Result<Routes, ConfigError> {
        let routes = std::mem::take(&mut self.routes);
        let profiles = self.profiles()?;
        let routes: Result<Vec<_>, _> =
            routes.into_iter().map(|(name, keys)| keys.route(&name, &profiles)).collect();
        Ok(Routes::new(routes?).map_err(RouteKeysError::Route)?)
    }
}

impl RouteKeys {
    fn route(self, name: &str, profiles: &[Profile]) -> Result<Route, RouteKeysError> {
        let wrong =
            |problem: &str| RouteKeysError::Keys { name: name.to_owned(), problem: problem.to_owned() };
        self.refuse_zero().map_err(|zero| wrong(&format!("{}: {zero}", zero.0.name)))?;
        let access = self.access().map_err(wrong)?;
        let url = self
            .url
            .ok_or_else(|| wrong("the key `url` is missing, like url = \"http://127.0.0.1:11434/v1\""))?;
        let format =
            self.format.ok_or_else(|| wrong("the key `format` is missing: chat, responses or messages"))?;
        let format = format.format();
        let profile = match self.profile {
            None => Route::default_profile(format).clone(),
            Some(wanted) => {
                let configured = profiles.iter().find(|profile| profile.name == *wanted);
                let found = Profile::named(&wanted).or(configured);
                found.cloned().ok_or_else(|| {
                    let known = Profile::ALL.into_iter().chain(profiles);
                    let known = known.map(|profile| profile.name.as_ref()).collect::<Vec<_>>().join(", ");
                    RouteKeysError::Profile { name: name.to_owned(), profile: wanted, known }
                })?
            }
        };
        let span = |chosen: Option<Span>, default| chosen.map_or(default, |span: Span| span.0);
        Ok(Route {
            name: name.to_owned(),
            url,
            format,
            profile,
            access,
            model: self.model,
            fallback: self.fallback.unwrap_or_default(),
            attempts: self.attempts.map_or(Route::ATTEMPTS, |tries| u32::try_from(tries).unwrap_or(u32::MAX)),
            first_event: span(self.first_event, Route::FIRST_EVENT),
            silence: span(self.silence, Route::SILENCE),
            longest_wait: span(self.longest_wait, Route::LONGEST_WAIT),
            reattach: self.reattach.map_or(Route::REATTACH, |age| age.0),
        })
    }

    fn access(&self) -> Result<Access, &'static str> {
        let source = |variable: &Option<String>, file: &Option<PathBuf>, both| match (variable, file) {
            (Some(_), Some(_)) => Err(both),
            (Some(name), None) => Ok(Some(KeySource::Variable(name.clone()))),
            (None, Some(path)) => Ok(Some(KeySource::File(path.clone()))),
            (None, None) => Ok(None),
        };
        let key =
            source(&self.key_env, &self.key_file, "key_env and key_file are both given; leave one out")?;
        let secret = source(
            &self.secret_env,
            &self.secret_file,
            "secret_env and secret_file are both given; leave one out",
        )?;
        match (self.pass_keys.unwrap_or(false), key, secret) {
            (false, _, Some(_)) => Err("secret_env and secret_file say nothing without pass_keys = true"),
            (false, Some(key), None) => Ok(Access::Configured(key)),
            (false, None, None) => Ok(Access::Keyless),
            (true, Some(_), _) => Err(
                "clients send their own key (pass_keys), or the gateway has one (key_env, key_file), not both",
            ),
            (true, None, Some(secret)) => Ok(Access::PassThrough(secret)),
            (true, None, None) => {
                Err("pass_keys needs secret_env or secret_file; `openssl rand -hex 16` makes a secret")
            }
        }
    }
}

impl FormatWord {
    fn format(self) -> Format {
        match self {
            Self::Chat => Format::Chat,
            Self::Responses => Format::Responses,
            Self::Messages => Format::Messages,
        }
    }
}

impl Place {
    /// The profiles of the configuration file.
    pub(crate) fn profiles(&self) -> Result<Vec<Profile>, ConfigError> {
        let keys: LlmKeys = file::read(self.file().as_deref())?;
        Ok(keys.llm.profiles()?)
    }
}
