//! Access control: the headers `Host` and `Origin`, and the token.
//!
//! Without a token only this machine is served. A browser on this machine could still send requests for
//! another site: from its page (`Origin`), or to a name that resolves to loopback (`Host`). Both are
//! refused before any route runs.

use crate::app::App;
use crate::caller::Caller;
use crate::options::Token;
use crate::problem::{Kind, Problem};
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::net::IpAddr;
use std::sync::Arc;

/// The name of the gateway's own token.
const OWNER: &str = "owner";

/// Passes a request on with its [`Caller`], or refuses it.
pub(crate) async fn check(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let authority = request.uri().authority().map(Authority::as_str);
    match allowed(app.options.token.as_ref(), authority, request.headers()) {
        Ok(()) => {
            let name = app.options.token.as_ref().map(|_| Arc::from(OWNER));
            request.extensions_mut().insert(Caller(name));
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

fn allowed(token: Option<&Token>, authority: Option<&str>, headers: &HeaderMap) -> Result<(), Problem> {
    let host = authority.or_else(|| text(headers, header::HOST)).unwrap_or_default();
    match token {
        // With a token any host is fine: for a browser, another name is another site, without a token.
        Some(token) => check_token(token, headers)?,
        None => check_host(host)?,
    }
    check_origin(host, headers)
}

/// The port is not checked, since tunnels change it.
fn check_host(host: &str) -> Result<(), Problem> {
    let known = host.parse::<Authority>().is_ok_and(|authority| is_loopback(authority.host()));
    if known {
        return Ok(());
    }
    let detail = format!(
        "the header Host is {host:?}, and without a token only localhost, 127.0.0.1 and [::1] are served"
    );
    Err(Problem::new(Kind::ForeignHost, detail).advice("use one of these as Host, or configure a token"))
}

fn check_origin(host: &str, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let page = origin.split_once("://").and_then(|(_, authority)| authority.parse::<Authority>().ok());
    let own = page.is_some_and(|page| is_loopback(page.host()) || page.as_str().eq_ignore_ascii_case(host));
    if own {
        return Ok(());
    }
    let detail = format!(
        "the page is from {origin:?}, and the gateway is {host:?}; serve the page from the gateway's host or from this \
         machine, or send the request from the page's server"
    );
    Err(Problem::new(Kind::ForeignOrigin, detail))
}

fn check_token(token: &Token, headers: &HeaderMap) -> Result<(), Problem> {
    let how = "send it as `Authorization: Bearer TOKEN`, or as the password of Basic with any user name";
    let Some(shown) = text(headers, header::AUTHORIZATION) else {
        return Err(
            Problem::new(Kind::Unauthorized, "the gateway requires a token, and none was sent").advice(how)
        );
    };
    let (scheme, shown) = shown.split_once(' ').unwrap_or((shown, ""));
    let shown = shown.trim();
    let right = if scheme.eq_ignore_ascii_case("bearer") {
        token.is(shown)
    } else if scheme.eq_ignore_ascii_case("basic") {
        password(shown).is_some_and(|password| token.is(&password))
    } else {
        let detail = format!("the scheme {scheme:?} is not supported");
        return Err(Problem::new(Kind::Unauthorized, detail).advice(how));
    };
    if right { Ok(()) } else { Err(Problem::new(Kind::Unauthorized, "the token is wrong").advice(how)) }
}

fn password(basic: &str) -> Option<String> {
    let pair = String::from_utf8(BASE64_STANDARD.decode(basic).ok()?).ok()?;
    pair.split_once(':').map(|(_, password)| password.to_owned())
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::{Token, allowed};
    use crate::problem::Kind;
    use axum::http::{HeaderMap, HeaderValue, header};

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    fn ask(token: Option<&str>, pairs: &[(header::HeaderName, &str)]) -> Option<Kind> {
        let token = token.map(|token| Token::new(token).unwrap());
        allowed(token.as_ref(), None, &headers(pairs)).err().map(|problem| problem.kind())
    }

    #[test]
    fn without_a_token_only_names_of_this_machine_are_served() {
        for host in ["localhost", "localhost:4180", "127.0.0.1:9", "[::1]:4180", "LOCALHOST:1", "127.8.8.8"] {
            assert_eq!(ask(None, &[(header::HOST, host)]), None, "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example:4180", "10.0.0.1:4180", "0.0.0.0", "[::2]"] {
            assert_eq!(ask(None, &[(header::HOST, host)]), Some(Kind::ForeignHost), "{host}");
        }
        assert_eq!(ask(None, &[]), Some(Kind::ForeignHost));
    }

    #[test]
    fn a_page_must_be_of_this_machine_or_of_the_gateways_host() {
        let from = |host, origin| ask(None, &[(header::HOST, host), (header::ORIGIN, origin)]);
        assert_eq!(from("localhost:4180", "http://localhost:3000"), None);
        assert_eq!(from("localhost:4180", "http://127.0.0.1"), None);
        for origin in ["http://evil.example", "null", "", "https://localhost.evil.example"] {
            assert_eq!(from("localhost:4180", origin), Some(Kind::ForeignOrigin), "{origin}");
        }
        let bearer = (header::AUTHORIZATION, "Bearer t0ken");
        let from = |host, origin| {
            ask(Some("t0ken"), &[(header::HOST, host), (header::ORIGIN, origin), bearer.clone()])
        };
        assert_eq!(from("agents.example:4180", "https://agents.example:4180"), None);
        assert_eq!(from("agents.example", "https://evil.example"), Some(Kind::ForeignOrigin));
    }

    #[test]
    fn the_token_is_taken_from_bearer_and_basic() {
        let shown =
            |value| ask(Some("t0ken"), &[(header::HOST, "any.example"), (header::AUTHORIZATION, value)]);
        assert_eq!(shown("Bearer t0ken"), None);
        assert_eq!(shown("bearer  t0ken"), None);
        // user:t0ken and :t0ken
        assert_eq!(shown("Basic dXNlcjp0MGtlbg=="), None);
        assert_eq!(shown("Basic OnQwa2Vu"), None);
        for wrong in ["Bearer other", "Bearer", "Basic t0ken", "Basic dXNlcjpvdGhlcg==", "Digest t0ken", ""] {
            assert_eq!(shown(wrong), Some(Kind::Unauthorized), "{wrong}");
        }
    }
}
