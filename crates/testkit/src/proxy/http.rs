//! The parts of HTTP/1 that the proxy needs: heads, and where a message ends.

use super::rules::RequestHead;

/// The largest head. Larger ones are not treated as HTTP.
pub(super) const HEAD_CAP: usize = 64 * 1024;

/// The framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Empty,
    Length(u64),
    Chunked,
    /// The body ends with the connection.
    Close,
}

/// The parts of a response head that the proxy needs.
#[derive(Debug)]
pub(super) struct ResponseHead {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
}

/// The length of a head with its blank line, if it is complete.
pub(super) fn head_length(bytes: &[u8]) -> Option<usize> {
    let mut line_start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == b'\n' {
            let line = &bytes[line_start..at];
            if line.is_empty() || line == b"\r" {
                return Some(at + 1);
            }
            line_start = at + 1;
        }
    }
    None
}

/// Reads a request head; `None` if it is not HTTP/1.
pub(super) fn request(head: &[u8], number: u64) -> Option<RequestHead> {
    let (first, headers) = lines(head)?;
    let mut words = first.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let known = version.starts_with("HTTP/1.") && words.next().is_none();
    known.then(|| RequestHead { number, method: method.to_owned(), target: target.to_owned(), headers })
}

/// Reads a response head; `None` if it is not HTTP/1.
pub(super) fn response(head: &[u8]) -> Option<ResponseHead> {
    let (first, headers) = lines(head)?;
    let status = first.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some(ResponseHead { status, headers })
}

fn lines(head: &[u8]) -> Option<(&str, Vec<(String, String)>)> {
    let mut lines = std::str::from_utf8(head).ok()?.lines();
    let first = lines.next()?;
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Some((first, headers))
}

/// The framing of a request's body. A request without either header has no body.
pub(super) fn request_framing(request: &RequestHead) -> Framing {
    framing(&request.headers).unwrap_or(Framing::Empty)
}

// === impl ResponseHead ===

impl ResponseHead {
    /// The framing of the response's body, for a request with this method.
    pub(super) fn framing(&self, method: &str) -> Framing {
        if method == "HEAD" || matches!(self.status, 100..200 | 204 | 304) {
            return Framing::Empty;
        }
        framing(&self.headers).unwrap_or(Framing::Close)
    }

    /// Whether the body is an event stream without compression.
    pub(super) fn is_event_stream(&self) -> bool {
        let header =
            |wanted: &str| self.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
        let kind = header("content-type").map(|value| value.to_ascii_lowercase());
        let plain = header("content-encoding").is_none_or(|value| value.eq_ignore_ascii_case("identity"));
        plain && kind.is_some_and(|kind| kind.split(';').next().map(str::trim) == Some("text/event-stream"))
    }

    /// Whether the connection switches to another protocol after this response.
    pub(super) fn switches(&self, method: &str) -> bool {
        self.status == 101 || (method == "CONNECT" && (200..300).contains(&self.status))
    }
}

fn framing(headers: &[(String, String)]) -> Option<Framing> {
    let header = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    if header("transfer-encoding").is_some_and(|value| value.to_ascii_lowercase().contains("chunked")) {
        return Some(Framing::Chunked);
    }
    header("content-length").and_then(|value| value.parse().ok()).map(Framing::Length)
}

/// The head of a response, changed from a length to chunks.
pub(super) fn with_chunks(head: &[u8]) -> Vec<u8> {
    let mut changed = Vec::with_capacity(head.len() + 32);
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        if line == b"\r\n" || line == b"\n" {
            changed.extend_from_slice(b"transfer-encoding: chunked\r\n");
        } else if line.to_ascii_lowercase().starts_with(b"content-length:") {
            continue;
        }
        changed.extend_from_slice(line);
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::{Framing, head_length, request, request_framing, response, with_chunks};

    #[test]
    fn a_head_ends_at_its_blank_line() {
        assert_eq!(head_length(b"GET / HTTP/1.1\r\nhost: x\r\n\r\nbody"), Some(27));
        assert_eq!(head_length(b"GET / HTTP/1.1\n\nbody"), Some(16));
        assert_eq!(head_length(b"GET / HTTP/1.1\r\nhost: x\r\n\r"), None);
    }

    #[test]
    fn what_is_not_http_is_not_taken_for_it() {
        assert!(request(b"* OK IMAP4 ready\r\n\r\n", 1).is_none());
        assert!(request(b"\xff\xfe\r\n\r\n", 1).is_none());
        assert!(response(b"220 mail ready\r\n\r\n").is_none());
    }

    #[test]
    fn framing_follows_method_status_and_headers() {
        let head = |text: &str| response(text.as_bytes()).unwrap();
        assert_eq!(head("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").framing("GET"), Framing::Length(5));
        assert_eq!(head("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").framing("HEAD"), Framing::Empty);
        assert_eq!(head("HTTP/1.1 204 No Content\r\n\r\n").framing("GET"), Framing::Empty);
        assert_eq!(
            head("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n").framing("GET"),
            Framing::Chunked
        );
        assert_eq!(head("HTTP/1.0 200 OK\r\n\r\n").framing("GET"), Framing::Close);
        let get = request(b"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n", 3).unwrap();
        assert_eq!(
            (get.target.as_str(), get.header("host"), request_framing(&get)),
            ("/a?b", Some("x"), Framing::Empty)
        );
    }

    #[test]
    fn only_plain_event_streams_are_read() {
        let head = |text: &str| response(format!("HTTP/1.1 200 OK\r\n{text}\r\n\r\n").as_bytes()).unwrap();
        assert!(head("content-type: text/event-stream; charset=utf-8").is_event_stream());
        assert!(!head("content-type: application/json").is_event_stream());
        assert!(!head("content-type: text/event-stream\r\ncontent-encoding: gzip").is_event_stream());
    }

    #[test]
    fn a_length_is_replaced_by_chunks() {
        let changed = with_chunks(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx: y\r\n\r\n");
        assert_eq!(changed, b"HTTP/1.1 200 OK\r\nx: y\r\ntransfer-encoding: chunked\r\n\r\n");
    }
}
