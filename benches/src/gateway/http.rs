//! The parts of HTTP/1.1 that the benchmark needs: small requests, and chunked bodies.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The head of a response, and its length.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) chunked: bool,
    pub(crate) length: usize,
}

/// The head at the beginning of these bytes, if it is complete.
pub(crate) fn head(bytes: &[u8]) -> Result<Option<Head>, String> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(bytes).map_err(|error| format!("not an HTTP response: {error}"))?;
    let httparse::Status::Complete(length) = parsed else { return Ok(None) };
    let chunked = response.headers.iter().any(|header| {
        header.name.eq_ignore_ascii_case("transfer-encoding") && header.value.eq_ignore_ascii_case(b"chunked")
    });
    Ok(Some(Head { status: response.code.unwrap_or(0), chunked, length }))
}

/// Sends a request, and returns status and body.
pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
    patience: Duration,
) -> Result<(u16, Vec<u8>), String> {
    let failed = |what: &str, error: std::io::Error| format!("{method} {path}: {what}: {error}");
    let mut stream = TcpStream::connect(address).map_err(|error| failed("connect", error))?;
    stream.set_read_timeout(Some(patience)).map_err(|error| failed("timeout", error))?;
    let content = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{content}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).map_err(|error| failed("write", error))?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(|error| failed("read", error))?;
    let head = head(&bytes)?.ok_or_else(|| format!("{method} {path}: the answer was cut"))?;
    let rest = &bytes[head.length..];
    let mut body = Vec::new();
    if head.chunked {
        Chunks::default().feed(rest, |data| body.extend_from_slice(data))?;
    } else {
        body.extend_from_slice(rest);
    }
    Ok((head.status, body))
}

/// A decoder for a chunked body.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// The size so far, and whether an extension has begun.
    Size {
        so_far: u64,
        extension: bool,
    },
    Data {
        left: u64,
    },
    #[default]
    Start,
    /// The line end after the data.
    LineEnd,
    Ended,
}

impl Chunks {
    /// Decodes bytes, and passes on the data.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut data: impl FnMut(&[u8])) -> Result<(), String> {
        while let Some(&byte) = bytes.first() {
            match self.stage {
                Stage::Data { left } => {
                    let here = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let (now, rest) = bytes.split_at(here);
                    data(now);
                    bytes = rest;
                    let left = left - here as u64;
                    self.stage = if left == 0 { Stage::LineEnd } else { Stage::Data { left } };
                    continue;
                }
                Stage::Start => {
                    self.stage = Stage::Size { so_far: 0, extension: false };
                    continue;
                }
                Stage::Size { so_far, extension } => self.stage = size(so_far, extension, byte)?,
                Stage::LineEnd => match byte {
                    b'\r' => {}
                    b'\n' => self.stage = Stage::Start,
                    other => return Err(format!("byte {other:#04x} behind a chunk")),
                },
                // Trailers, and what else may follow.
                Stage::Ended => return Ok(()),
            }
            bytes = &bytes[1..];
        }
        Ok(())
    }

    /// Whether the last chunk has arrived.
    pub(crate) fn ended(&self) -> bool {
        self.stage == Stage::Ended
    }
}

fn size(so_far: u64, extension: bool, byte: u8) -> Result<Stage, String> {
    Ok(match byte {
        b'\n' if so_far == 0 => Stage::Ended,
        b'\n' => Stage::Data { left: so_far },
        b'\r' => Stage::Size { so_far, extension },
        b';' => Stage::Size { so_far, extension: true },
        _ if extension => Stage::Size { so_far, extension },
        _ => {
            let digit = char::from(byte).to_digit(16);
            let digit = digit.ok_or_else(|| format!("byte {byte:#04x} in the size of a chunk"))?;
            let so_far = so_far.checked_mul(16).ok_or("a chunk of more than 64 bits")?;
            Stage::Size { so_far: so_far + u64::from(digit), extension }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::Chunks;

    #[test]
    fn a_chunked_body_is_the_same_however_it_was_split() {
        let body = b"5\r\nhello\r\n6;some=thing\r\n world\r\n0\r\n\r\n";
        for split in 0..=body.len() {
            let mut chunks = Chunks::default();
            let mut whole = Vec::new();
            for part in [&body[..split], &body[split..]] {
                chunks.feed(part, |data| whole.extend_from_slice(data)).unwrap();
            }
            assert_eq!(whole, b"hello world", "split at {split}");
            assert!(chunks.ended());
        }
    }

    #[test]
    fn what_is_not_chunked_is_said() {
        assert!(Chunks::default().feed(b"data: x\n\n", |_| {}).is_err());
    }
}
