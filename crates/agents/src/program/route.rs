//! Points an agent that is started at a route of the gateway's proxy (`route` in `[agents.NAME]`).

use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use turnstream_llm::Format;
use turnstream_provider::{Access, AgentRoute, Asker, Route};

/// The name of the route as a provider, in the configuration of an agent.
const PROVIDER: &str = "turnstream";
/// What an agent sends as its key. The address opens the route, and no key of an agent reaches the provider.
const NO_KEY: &str = "the-address-opens-the-route";
/// The configuration of opencode as text.
const OPENCODE_CONFIG: &str = "OPENCODE_CONFIG_CONTENT";
/// The variables of Claude Code that name its models.
const CLAUDE_MODELS: [&str; 2] = ["ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL"];

/// How an agent learns of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutedBy {
    /// By the variables of Anthropic's clients.
    AnthropicVariables,
    /// By a provider in the configuration that opencode reads from a variable.
    OpencodeConfig,
    /// By a provider in the configuration of each thread.
    CodexThread,
}

/// A route, and how an agent learns of it.
#[derive(Clone, Debug)]
pub struct RouteForAgent {
    /// How it learns of it.
    pub by: RoutedBy,
    /// The route.
    pub route: AgentRoute,
}

impl RoutedBy {
    /// Refuses a route that the agent cannot use. The error continues a sentence about the route.
    ///
    /// # Errors
    ///
    /// What is wrong, and what to do about it.
    pub fn check(self, route: &Route) -> Result<(), String> {
        let speaks = route.format.name();
        let passes_keys = matches!(route.access, Access::PassThrough(_));
        match self {
            Self::AnthropicVariables if route.format != Format::Messages => Err(format!(
                "has format = {speaks:?}, and this agent speaks \"messages\"; name another route"
            )),
            Self::CodexThread if route.format != Format::Responses => Err(format!(
                "has format = {speaks:?}, and this agent speaks \"responses\"; name another route"
            )),
            Self::OpencodeConfig | Self::CodexThread if passes_keys => {
                Err("passes keys through, and this agent gets none; give it a key_env".to_owned())
            }
            Self::OpencodeConfig if route.model.is_none() => {
                Err("has no model, and opencode must be told the names of its models; give it a model"
                    .to_owned())
            }
            Self::AnthropicVariables | Self::OpencodeConfig | Self::CodexThread => Ok(()),
        }
    }
}

impl RouteForAgent {
    /// Adds the variables that point a process at the route, for whoever it works for. Those that would lead
    /// it past the route are removed.
    pub fn point(&self, env: &mut Vec<(OsString, OsString)>, asker: &Asker) {
        let url = self.route.url(asker);
        match self.by {
            RoutedBy::AnthropicVariables => {
                let passes_keys = self.route.passes_keys();
                env.retain(|(name, _)| !leads_past_the_route(name, passes_keys));
                for name in CLAUDE_MODELS {
                    let is_given = env.iter().any(|(given, _)| given == name);
                    if let Some(model) = self.route.model().filter(|_| !is_given) {
                        env.push((name.into(), model.into()));
                    }
                }
                env.push(("ANTHROPIC_BASE_URL".into(), url.into()));
                if !passes_keys {
                    env.push(("ANTHROPIC_API_KEY".into(), NO_KEY.into()));
                }
            }
            RoutedBy::OpencodeConfig => {
                let mut config = given_config(env, OPENCODE_CONFIG);
                self.add_to_opencode(&mut config, &url);
                env.push((OPENCODE_CONFIG.into(), config.to_string().into()));
            }
            RoutedBy::CodexThread => {}
        }
    }

    /// The members of `thread/start` and `thread/resume` that point a thread of Codex at the route. They are
    /// no arguments of the process, because everybody can read those.
    pub fn thread_members(&self, asker: &Asker) -> Value {
        let (provider, value) = self.codex_provider(&self.route.url(asker));
        json!({"modelProvider": PROVIDER, "config": {provider: value}})
    }

    /// The arguments of Codex's process. A thread may only have the provider that its process has too: Codex
    /// 0.166.0 refuses its turns otherwise. So this names the provider, without the secret part of its
    /// address.
    pub fn process_arguments(&self) -> Vec<String> {
        let url = self.route.closed_url();
        let provider = format!(r#"{{name="Turnstream",base_url="{url}",wire_api="responses"}}"#);
        let (chosen, defined) =
            (format!("model_provider={PROVIDER:?}"), format!("model_providers.{PROVIDER}={provider}"));
        vec!["-c".to_owned(), chosen, "-c".to_owned(), defined]
    }

    /// The key of the route in a configuration of Codex, and its value.
    fn codex_provider(&self, url: &str) -> (String, Value) {
        let value = json!({"name": "Turnstream", "base_url": url, "wire_api": "responses"});
        (format!("model_providers.{PROVIDER}"), value)
    }

    /// The model of the route.
    pub fn model(&self) -> Option<String> {
        self.route.model().map(str::to_owned)
    }

    fn add_to_opencode(&self, config: &mut Value, url: &str) {
        let package = match self.route.format() {
            Format::Chat => "@ai-sdk/openai-compatible",
            Format::Responses => "@ai-sdk/openai",
            Format::Messages => "@ai-sdk/anthropic",
        };
        let model = self.route.model().unwrap_or_default();
        if !config["provider"].is_object() {
            config["provider"] = json!({});
        }
        config["provider"][PROVIDER] = json!({
            "name": "Turnstream",
            "npm": package,
            "options": {"baseURL": url, "apiKey": NO_KEY},
            "models": {model: {}},
        });
        // No other provider, so that nothing is asked past the route.
        config["enabled_providers"] = json!([PROVIDER]);
        for key in ["model", "small_model"] {
            config[key] = Value::from(format!("{PROVIDER}/{model}"));
        }
    }
}

/// The configuration that a variable has already, if it has one.
fn given_config(env: &[(OsString, OsString)], name: &str) -> Value {
    let given = env.iter().rev().find(|(given, _)| given == name);
    let given = given.and_then(|(_, text)| serde_json::from_str(text.to_str()?).ok());
    given.filter(Value::is_object).unwrap_or_else(|| json!({}))
}

/// Whether a variable would lead Claude Code to another provider, or give its own key to the route.
fn leads_past_the_route(name: &OsStr, passes_keys: bool) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_key = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"].contains(&name);
    name.starts_with("CLAUDE_CODE_USE_") || name == "ANTHROPIC_BASE_URL" || (is_key && !passes_keys)
}

#[cfg(test)]
mod tests {
    use super::{RouteForAgent, RoutedBy};
    use serde_json::Value;
    use std::ffi::OsString;
    use std::sync::Arc;
    use turnstream_llm::Format;
    use turnstream_provider::{Access, AgentRoute, AgentSecret, Asker, KeySource, Route};

    fn route(format: Format, model: Option<&str>) -> Route {
        Route {
            name: "main".to_owned(),
            url: "http://127.0.0.1:1/v1".to_owned(),
            format,
            profile: Route::default_profile(format).clone(),
            access: Access::Keyless,
            model: model.map(str::to_owned),
            fallback: Vec::new(),
            attempts: Route::ATTEMPTS,
            first_event: Route::FIRST_EVENT,
            silence: Route::SILENCE,
            longest_wait: Route::LONGEST_WAIT,
            reattach: Route::REATTACH,
        }
    }

    fn pointed(by: RoutedBy, route: Route, env: &[(&str, &str)]) -> Vec<(String, String)> {
        let route = AgentRoute::new(Arc::new(route), "127.0.0.1:9".parse().unwrap(), AgentSecret([1; 32]));
        let mut env: Vec<(OsString, OsString)> =
            env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        RouteForAgent { by, route }.point(&mut env, &Asker::Session("ses_1".to_owned()));
        let text = |text: OsString| text.into_string().unwrap();
        env.into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn claude_code_has_the_address_and_no_key_of_its_own() {
        let given = [
            ("ANTHROPIC_BASE_URL", "https://elsewhere"),
            ("ANTHROPIC_AUTH_TOKEN", "Kartoffel7"),
            ("CLAUDE_CODE_USE_BEDROCK", "1"),
            ("ANTHROPIC_MODEL", "mine"),
            ("OTHER", "x"),
        ];
        let by = RoutedBy::AnthropicVariables;
        let env = pointed(by, route(Format::Messages, Some("m")), &given);
        let value = |name: &str| env.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
        let url = value("ANTHROPIC_BASE_URL").unwrap();
        assert!(url.starts_with("http://127.0.0.1:9/llm/main/tsr_"), "{url}");
        assert!(!env.iter().any(|(_, value)| value.contains("Kartoffel7")));
        let seen = ["ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL", "OTHER"].map(value);
        assert_eq!(seen, [Some("mine"), Some("m"), Some("x")]);
        assert_eq!(value("CLAUDE_CODE_USE_BEDROCK"), None);

        let secret = KeySource::Variable("S".to_owned());
        let passing = Route { access: Access::PassThrough(secret), ..route(Format::Messages, None) };
        let env = pointed(by, passing, &given);
        assert!(env.iter().any(|(_, value)| value == "Kartoffel7"));
        assert!(!env.iter().any(|(name, _)| name == "ANTHROPIC_API_KEY"));
    }

    #[test]
    fn opencode_has_its_other_configuration_and_no_other_provider() {
        let given = [("OPENCODE_CONFIG_CONTENT", r#"{"model":"own/x","share":"disabled"}"#)];
        let env = pointed(RoutedBy::OpencodeConfig, route(Format::Chat, Some("m")), &given);
        let config: Value = serde_json::from_str(&env.last().unwrap().1).unwrap();
        let model = Value::from("turnstream/m");
        assert_eq!((&config["model"], &config["small_model"]), (&model, &model));
        assert_eq!(config["enabled_providers"], serde_json::json!(["turnstream"]));
        assert_eq!(config["share"], "disabled");
        let url = config["provider"]["turnstream"]["options"]["baseURL"].as_str().unwrap();
        assert!(url.starts_with("http://127.0.0.1:9/llm/main/tsr_"), "{url}");
    }

    #[test]
    fn a_route_that_an_agent_cannot_use_is_refused_in_words() {
        let problem = |by: RoutedBy, route: &Route| by.check(route).unwrap_err();
        let chat = route(Format::Chat, None);
        assert!(problem(RoutedBy::AnthropicVariables, &chat).contains("\"messages\""));
        assert!(problem(RoutedBy::CodexThread, &chat).contains("\"responses\""));
        assert!(problem(RoutedBy::OpencodeConfig, &chat).contains("model"));
        let secret = KeySource::Variable("S".to_owned());
        let passing = Route { access: Access::PassThrough(secret), ..route(Format::Responses, Some("m")) };
        assert!(problem(RoutedBy::CodexThread, &passing).contains("key_env"));
        assert!(RoutedBy::CodexThread.check(&route(Format::Responses, None)).is_ok());
    }
}
