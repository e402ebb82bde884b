//! All routes of a configuration, checked.

use crate::key::KeyError;
use crate::route::{Access, Operation, Route};
use std::collections::BTreeMap;
use std::sync::Arc;
use turnstream_llm::client::check_url;

/// The routes of a configuration. Each can be used, and each fallback exists.
#[derive(Clone, Debug, Default)]
pub struct Routes(BTreeMap<String, Arc<Route>>);

/// Why routes cannot be used. `name` is the name of the table.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// The name cannot be part of a path.
    #[error("[llm.routes.{0:?}] needs another name: letters, digits, '-', '_' and '.', for example main")]
    Name(String),
    /// The URL cannot be used.
    #[error("[llm.routes.{name}] url: {problem}")]
    Url {
        /// The route.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A fallback does not exist.
    #[error("[llm.routes.{name}] fallback: there is no route {fallback:?}; there is {known}")]
    NoFallback {
        /// The route.
        name: String,
        /// The unknown name.
        fallback: String,
        /// The names of all routes.
        known: String,
    },
    /// A fallback cannot take over.
    #[error("[llm.routes.{name}] fallback: {fallback:?} {problem}")]
    Fallback {
        /// The route.
        name: String,
        /// The other route.
        fallback: String,
        /// Why it cannot.
        problem: &'static str,
    },
}

impl Routes {
    /// Checks these routes. Names are unique: they were keys of a table.
    ///
    /// # Errors
    ///
    /// [`RouteError`] for the first thing that is wrong.
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Result<Self, RouteError> {
        let routes = routes.into_iter().map(|route| (route.name.clone(), Arc::new(route)));
        let routes = Self(routes.collect());
        for route in routes.iter() {
            routes.check(route)?;
        }
        Ok(routes)
    }

    /// The route of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Route>> {
        self.0.get(name)
    }

    /// All routes, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.0.values()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A route and its fallbacks, in the order in which they are asked. Fallbacks of fallbacks are not asked.
    pub fn chain(&self, route: &Arc<Route>) -> Vec<Arc<Route>> {
        let fallbacks = route.fallback.iter().filter_map(|name| self.get(name));
        std::iter::once(route).chain(fallbacks).cloned().collect()
    }

    /// Routes whose key or secret cannot be read now. They are no error: the rest of the gateway works.
    pub fn unreadable_keys(&self) -> Vec<(&str, KeyError)> {
        let error = |route: &Route| match &route.access {
            Access::Configured(source) | Access::PassThrough(source) => source.read().err(),
            Access::Keyless => None,
        };
        self.iter().filter_map(|route| Some((route.name.as_str(), error(route)?))).collect()
    }

    fn check(&self, route: &Route) -> Result<(), RouteError> {
        let name = route.name.clone();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(fits) {
            return Err(RouteError::Name(name));
        }
        if route.url.contains(['?', '#']) {
            let problem = "it has a query or a fragment; give the key with key_env".to_owned();
            return Err(RouteError::Url { name, problem });
        }
        if let Err(failure) = check_url(&route.url_for(Operation::Generate)) {
            return Err(RouteError::Url { name, problem: failure.message });
        }
        for fallback in &route.fallback {
            let Some(other) = self.get(fallback) else {
                let known = self.0.keys().cloned().collect::<Vec<_>>().join(", ");
                return Err(RouteError::NoFallback { name, fallback: fallback.clone(), known });
            };
            let problem = if other.name == route.name {
                "is the route itself; name another one"
            } else if other.format != route.format {
                "has another format; name a route of the same format"
            } else if matches!(other.access, Access::PassThrough(_)) {
                // The client's key is for one provider only.
                "passes keys through, and a client has no key for it; give it a key_env"
            } else {
                continue;
            };
            return Err(RouteError::Fallback { name, fallback: fallback.clone(), problem });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Routes;
    use crate::{Access, KeySource, Operation, Route};
    use turnstream_llm::Format;

    fn route(name: &str, format: Format, url: &str) -> Route {
        Route {
            name: name.to_owned(),
            url: url.to_owned(),
            format,
            profile: Route::default_profile(format).clone(),
            access: Access::Keyless,
            model: None,
            fallback: Vec::new(),
            attempts: Route::ATTEMPTS,
            first_event: Route::FIRST_EVENT,
            silence: Route::SILENCE,
            longest_wait: Route::LONGEST_WAIT,
            reattach: Route::REATTACH,
        }
    }

    #[test]
    fn the_url_of_an_operation_follows_from_the_base_that_clients_take() {
        let url = |format, base: &str, operation| route("a", format, base).url_for(operation);
        let (chat, messages) = (Format::Chat, Format::Messages);
        let generate = Operation::Generate;
        assert_eq!(url(chat, "http://a/v1/", generate), "http://a/v1/chat/completions");
        assert_eq!(url(Format::Responses, "http://a/v1", generate), "http://a/v1/responses");
        assert_eq!(url(messages, "http://a", generate), "http://a/v1/messages");
        assert_eq!(url(messages, "http://a/v1", Operation::Models), "http://a/v1/models");
        assert_eq!(
            url(messages, "http://a/x/", Operation::CountTokens),
            "http://a/x/v1/messages/count_tokens"
        );
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let chat = |name: &str| route(name, Format::Chat, "http://127.0.0.1:1/v1");
        let problem = |routes: Vec<Route>| Routes::new(routes).unwrap_err().to_string();
        assert!(problem(vec![chat("a/b")]).contains("a/b"));
        assert!(problem(vec![route("a", Format::Chat, "127.0.0.1")]).contains("[llm.routes.a] url"));
        let with_key = problem(vec![route("a", Format::Chat, "http://h/?key=Kartoffel7")]);
        assert!(with_key.contains("query") && !with_key.contains("Kartoffel7"), "{with_key}");
        let falling = |to: &str| Route { fallback: vec![to.to_owned()], ..chat("a") };
        assert!(problem(vec![falling("b")]).contains("no route \"b\""));
        assert!(problem(vec![falling("a")]).contains("itself"));
        assert!(problem(vec![falling("b"), route("b", Format::Messages, "http://h")]).contains("format"));
        let passing = Access::PassThrough(KeySource::Variable("S".to_owned()));
        assert!(problem(vec![falling("b"), Route { access: passing, ..chat("b") }]).contains("key_env"));
        let routes = Routes::new(vec![falling("b"), chat("b")]).unwrap();
        let chain = routes.chain(routes.get("a").unwrap());
        assert_eq!(chain.iter().map(|route| route.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }
}
