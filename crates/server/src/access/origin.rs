//! Which names the gateway answers to (`Host`), and which pages may use it (`Origin`).

use super::Connection;
use crate::problem::{Kind, Problem};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// A web origin as browsers write it: scheme, host, and the port unless it is the scheme's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    text: String,
    /// Without the port.
    host: String,
}

/// Why a text is no origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no web origin; write a scheme and a host, for example https://agents.example")]
pub struct OriginError;

/// The names of the gateway, and the pages that may use it.
#[derive(Clone, Debug)]
pub(crate) struct Sites {
    /// The address it listens on.
    pub(crate) listen: SocketAddr,
    /// The origin that clients see, if the gateway is behind a proxy.
    pub(crate) public_url: Option<Origin>,
    /// Pages of other origins that may use it.
    pub(crate) origins: Vec<Origin>,
}

/// How a client names the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// By an address that the gateway listens on.
    Direct,
    /// By the name in `public_url`. Only the proxy in front of the gateway has pages of that name.
    Public,
}

/// The page that sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page<'a> {
    /// None, or one of the gateway's own.
    Own,
    /// A page of a listed origin, which needs CORS headers.
    Listed(&'a Origin),
}

// === impl Origin ===

impl Origin {
    /// As browsers write it, for example `https://agents.example`.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    /// Accepts one slash at the end, as addresses in a browser have it.
    fn from_str(text: &str) -> Result<Self, OriginError> {
        let wrong = || OriginError;
        let uri: Uri = text.strip_suffix('/').unwrap_or(text).parse().map_err(|_| wrong())?;
        let (scheme, default_port) = match uri.scheme_str() {
            Some("http") => ("http", 80),
            Some("https") => ("https", 443),
            Some(_) | None => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        let is_bare = uri.path() == "/" && uri.query().is_none() && !authority.as_str().contains('@');
        if !is_bare || authority.host().is_empty() {
            return Err(wrong());
        }
        let host = authority.host().to_ascii_lowercase();
        let port = match authority.port_u16() {
            Some(port) if port != default_port => format!(":{port}"),
            Some(_) | None => String::new(),
        };
        Ok(Self { text: format!("{scheme}://{host}{port}"), host })
    }
}

// === impl Sites ===

impl Sites {
    /// Checks the host of a request. Another name may resolve to this machine, and a browser would then let
    /// its pages in. Ports are not checked, since tunnels change them.
    pub(crate) fn check_host(&self, host: &str, connection: Option<Connection>) -> Result<HostKind, Problem> {
        let authority = host.parse::<Authority>().ok().filter(|_| !host.contains('@'));
        if let Some(name) = authority.as_ref().map(Authority::host) {
            if self.is_direct(name, connection) {
                return Ok(HostKind::Direct);
            }
            if self.public_url.as_ref().is_some_and(|url| url.host.eq_ignore_ascii_case(name)) {
                return Ok(HostKind::Public);
            }
        }
        let known = match &self.public_url {
            Some(url) => format!("localhost, 127.0.0.1, [::1], {} and {}", self.listen.ip(), url.host),
            None => format!("localhost, 127.0.0.1, [::1] and {}", self.listen.ip()),
        };
        let detail = format!("the header Host is {host:?}, and the gateway answers to {known}");
        Err(Problem::new(Kind::ForeignHost, detail)
            .advice("use one of these as Host, or set public_url in the configuration"))
    }

    /// Whether a name is of this machine.
    fn is_direct(&self, name: &str, connection: Option<Connection>) -> bool {
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        // The gateway may listen on several addresses, or on all of them. The client used one of these.
        let is_used = |ip: IpAddr| {
            connection.is_some_and(|connection| connection.local.ip().to_canonical() == ip.to_canonical())
        };
        let is_listened = |ip: IpAddr| is_used(ip) || (self.listen.ip() == ip && !ip.is_unspecified());
        name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback() || is_listened(ip))
    }

    /// The page behind a request. `host` has passed [`Sites::check_host`].
    pub(crate) fn page(&self, host: &str, kind: HostKind, headers: &HeaderMap) -> Result<Page<'_>, Problem> {
        let mut sent = headers.get_all(header::ORIGIN).iter();
        let Some(first) = sent.next() else { return Ok(Page::Own) };
        let origin = first.to_str().unwrap_or_default();
        let is_single = sent.next().is_none();
        let is = |own: &Origin| own.text == origin;
        let is_own = match kind {
            HostKind::Direct => {
                origin.strip_prefix("http://").is_some_and(|page| page.eq_ignore_ascii_case(host))
            }
            HostKind::Public => false,
        };
        if is_single && (is_own || self.public_url.as_ref().is_some_and(is)) {
            return Ok(Page::Own);
        }
        match self.origins.iter().find(|listed| is(listed)).filter(|_| is_single) {
            Some(listed) => Ok(Page::Listed(listed)),
            None => {
                let detail = format!("the page is from {origin:?}, which is not an origin of the gateway");
                Err(Problem::new(Kind::ForeignOrigin, detail).advice(
                    "add it to origins in the configuration, or send the request from the page's server",
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Origin, Page, Sites};
    use crate::access::Connection;
    use axum::http::{HeaderMap, HeaderValue, header};

    fn sites(listen: &str) -> Sites {
        Sites {
            listen: listen.parse().unwrap(),
            public_url: Some("https://Agents.example:443/".parse().unwrap()),
            origins: vec!["https://app.example:8443".parse().unwrap()],
        }
    }

    #[test]
    fn an_origin_is_written_as_browsers_write_it() {
        for (text, origin) in [
            ("https://Agents.Example", "https://agents.example"),
            ("http://agents.example:80/", "http://agents.example"),
            ("http://[::1]:443", "http://[::1]:443"),
        ] {
            assert_eq!(text.parse::<Origin>().unwrap().as_str(), origin);
        }
        for wrong in [
            "",
            "null",
            "*",
            "agents.example",
            "ftp://a.example",
            "https://a.example/x",
            "https://a?b",
            "https://me@a.example",
            "https://",
            "file:///x",
        ] {
            assert!(wrong.parse::<Origin>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_own_names_are_hosts() {
        let is_own =
            |listen: &str, host: &str, connection| sites(listen).check_host(host, connection).is_ok();
        for host in
            ["localhost", "LOCALHOST:1", "127.8.8.8", "[::1]:4180", "agents.example", "AGENTS.example:443"]
        {
            assert!(is_own("127.0.0.1:4180", host, None), "{host}");
        }
        for host in
            ["", "evil.example", "localhost.evil.example", "10.0.0.1", "0.0.0.0", "[::2]", "a@localhost:x"]
        {
            assert!(!is_own("127.0.0.1:4180", host, None), "{host}");
        }
        assert!(is_own("10.0.0.1:4180", "10.0.0.1:4180", None));
        assert!(!is_own("10.0.0.1:4180", "10.0.0.2:4180", None));
        let reached = Connection {
            peer: "10.0.0.9:5".parse().unwrap(),
            local: "[::ffff:10.0.0.1]:4180".parse().unwrap(),
        };
        assert!(is_own("[::]:4180", "10.0.0.1", Some(reached)), "the address that the client used");
        assert!(!is_own("[::]:4180", "10.0.0.2", Some(reached)));
        assert!(!is_own("[::]:4180", "10.0.0.1", None));
        assert!(is_own("127.0.0.1:4180", "10.0.0.1", Some(reached)), "it listens on a second address");
        assert!(!is_own("127.0.0.1:4180", "0.0.0.0", Some(reached)));
    }

    #[test]
    fn a_page_is_own_only_with_exactly_the_same_origin() {
        let sites = sites("127.0.0.1:4180");
        let from = |host: &str, origins: &[&str]| {
            let values = origins.iter().map(|origin| HeaderValue::from_str(origin).unwrap());
            let headers: HeaderMap = values.map(|value| (header::ORIGIN, value)).collect();
            let kind = sites.check_host(host, None).unwrap();
            sites.page(host, kind, &headers).ok().map(|page| matches!(page, Page::Own))
        };
        assert_eq!(from("localhost:4180", &[]), Some(true));
        assert_eq!(from("localhost:4180", &["http://localhost:4180"]), Some(true));
        assert_eq!(from("agents.example", &["https://agents.example"]), Some(true));
        assert_eq!(from("agents.example", &["http://agents.example"]), None);
        assert_eq!(from("localhost:4180", &["https://app.example:8443"]), Some(false));
        for origin in [
            "http://localhost:3000",
            "http://localhost",
            "https://localhost:4180",
            "http://127.0.0.1:4180",
            "null",
            "",
            "file://",
            "https://app.example",
            "https://app.example:8443/",
            "http://agents.example",
            "https://evil.example",
            "chrome-extension://localhost:4180",
        ] {
            assert_eq!(from("localhost:4180", &[origin]), None, "{origin}");
        }
        assert_eq!(from("localhost:4180", &["http://localhost:4180", "http://localhost:4180"]), None);
    }
}
