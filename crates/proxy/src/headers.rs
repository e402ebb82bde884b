//! Which headers pass, in both directions.

use axum::http::HeaderMap;
use turnstream_llm::client::RouteSecrets;
use turnstream_provider::{Access, KeyError, Route};

/// Headers of one connection, and those that are written anew. They never pass.
const OWN: [&str; 15] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "host",
    "expect",
    "accept-encoding",
    "cookie",
    "set-cookie",
];

/// Headers about the client's address or page, which are no business of a provider.
const PRIVATE: [&str; 8] = [
    "origin",
    "referer",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "x-request-id",
];

/// Headers of providers that would bind a client to them, or to rules for their own pages.
const OF_PAGES: [&str; 6] = [
    "location",
    "refresh",
    "alt-svc",
    "strict-transport-security",
    "clear-site-data",
    "content-security-policy",
];

/// The headers of a request to a provider. `is_first`: it is the route that the client asked for.
pub(crate) fn to_provider(
    client: &[(String, String)],
    route: &Route,
    is_first: bool,
) -> Result<Vec<(String, String)>, KeyError> {
    let passes_keys = is_first && matches!(route.access, Access::PassThrough(_));
    let passes =
        |name: &str| !OWN.contains(&name) && !PRIVATE.contains(&name) && (passes_keys || !is_key(name));
    let mut headers: Vec<_> = client.iter().filter(|(name, _)| passes(name)).cloned().collect();
    if let Access::Configured(source) = &route.access {
        headers.push(route.key_header(source.read()?.expose()));
    }
    Ok(headers)
}

/// The headers of an answer to a client. Those of another Turnstream would contradict ours.
pub(crate) fn to_client(provider: &[(String, String)]) -> Vec<(String, String)> {
    let of_connection = provider.iter().filter(|(name, _)| name == "connection");
    let of_connection = named_in(of_connection.map(|(_, names)| names.as_str()));
    let passes = |name: &str| {
        !OWN.contains(&name)
            && !OF_PAGES.contains(&name)
            && !name.starts_with("access-control-")
            && !name.starts_with("x-turnstream-")
            && !of_connection.iter().any(|own| own.eq_ignore_ascii_case(name))
    };
    provider.iter().filter(|(name, _)| passes(name)).cloned().collect()
}

/// The headers that a `connection` header names: they are meant for that connection only.
fn named_in<'a>(connection: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    connection.flat_map(|names| names.split(',')).map(str::trim).collect()
}

/// Whether a header of a client carries a key. An idempotency key is none.
pub(crate) fn is_key(name: &str) -> bool {
    RouteSecrets::is_secret(name) && name != "idempotency-key"
}

/// The headers of a client's request as texts. Those that are not ASCII are left out, and those that the
/// client meant for this connection only.
pub(crate) fn of_client(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &axum::http::HeaderValue| value.to_str().ok().map(str::to_owned);
    let of_connection =
        named_in(headers.get_all("connection").iter().filter_map(|value| value.to_str().ok()));
    headers
        .iter()
        .filter(|(name, _)| !of_connection.iter().any(|own| own.eq_ignore_ascii_case(name.as_str())))
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), text(value)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::to_client;

    #[test]
    fn what_a_provider_means_for_its_connection_does_not_pass() {
        let headers = [("connection", "Keep-Alive, X-Hop"), ("x-hop", "1"), ("x-kept", "2"), ("date", "now")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(to_client(&headers), headers[2..]);
    }
}
