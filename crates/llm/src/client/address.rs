//! The parsed URL of a route.
//!
//! Errors never repeat the URL: some providers want the key in it.

use crate::classify::{Failure, Source};
use hyper::Uri;
use turnstream_model::event::ErrorClass;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) uri: Uri,
    /// The host, without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) scheme: Scheme,
}

/// The scheme of the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Address {
    /// Parses an `http://` or `https://` URL.
    pub(super) fn parse(url: &str) -> Result<Self, Failure> {
        let uri: Uri = url.parse().map_err(|error| wrong(&format!("it is not a URL: {error}")))?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(other) => return Err(wrong(&format!("{other}:// is not supported"))),
            None => return Err(wrong("it has no http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("a name and a password in it are not used; give the key as a header"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(wrong("it names no host"));
        }
        // `http` reads an invalid port as no port. Then another server would get the key.
        let named = authority.as_str().rsplit(']').next().and_then(|rest| rest.split_once(':'));
        let port = match (authority.port_u16(), named) {
            (Some(port), _) => port,
            (None, Some(_)) => return Err(wrong("the port is not a number from 1 to 65535")),
            (None, None) => match scheme {
                Scheme::Http => 80,
                Scheme::Https => 443,
            },
        };
        Ok(Self { uri, host, port, scheme })
    }

    /// The path and query, for the request line.
    pub(super) fn path(&self) -> &str {
        self.uri.path_and_query().map_or("/", |path| path.as_str())
    }

    /// Host and port, for the `Host` header.
    pub(super) fn authority(&self) -> &str {
        self.uri.authority().map_or(self.host.as_str(), |authority| authority.as_str())
    }
}

fn wrong(problem: &str) -> Failure {
    let message =
        format!("the URL of the route cannot be used: {problem}; write it like https://api.example.com/v1/…");
    Failure::new(ErrorClass::InvalidRequest, Source::Ours, message)
}

#[cfg(test)]
mod tests {
    use super::{Address, Scheme};

    #[test]
    fn an_address_is_taken_apart_or_refused_without_being_repeated() {
        let parts = |url: &str| {
            let address = Address::parse(url).ok()?;
            let (path, authority) = (address.path().to_owned(), address.authority().to_owned());
            Some((address.host, address.port, address.scheme, path, authority))
        };
        let expected = |host: &str, port, scheme, path: &str, authority: &str| {
            Some((host.to_owned(), port, scheme, path.to_owned(), authority.to_owned()))
        };
        let https = Scheme::Https;
        assert_eq!(
            parts("https://a.example/v1?key=k"),
            expected("a.example", 443, https, "/v1?key=k", "a.example")
        );
        assert_eq!(parts("http://[::1]:9"), expected("::1", 9, Scheme::Http, "/", "[::1]:9"));
        assert_eq!(parts("https://[::1]/v1"), expected("::1", 443, https, "/v1", "[::1]"));
        for url in [
            "no address",
            "/v1",
            "ftp://a",
            "https://",
            "http://u:Kartoffel7@a/",
            "https://a b/Kartoffel7",
            "http://a:99999/",
            "http://a:/",
            "https://[::1]:65536/v1",
            "https://[::1]:",
        ] {
            let failure = Address::parse(url).expect_err(url);
            assert!(!failure.message.contains("Kartoffel7"), "{}", failure.message);
        }
    }
}
