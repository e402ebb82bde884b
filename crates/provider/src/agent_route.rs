//! How an agent that the gateway starts reaches a route: an address on loopback, with a part in its path that
//! nobody can guess.
//!
//! The part names a session or an agent, and proves it with an HMAC. So it needs no table, and it is the same
//! after a restart: an agent that outlives its gateway goes on with the next one.

use crate::route::{Access, Route};
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use turnstream_llm::Format;

/// How each part begins. The redactor knows it.
const PREFIX: &str = "tsr_";
/// Bytes of the HMAC in a part: 128 bits.
const PROOF: usize = 16;
/// The block size of SHA-256, in bytes.
const BLOCK: usize = 64;

/// The secret of a data directory that parts are made with. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct AgentSecret(pub [u8; 32]);

/// Who asks by a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The process of one session, by the id of the session.
    Session(String),
    /// A server that works for all sessions of an agent, by the name of the agent.
    Agent(String),
}

/// A route as an agent that the gateway starts sees it.
#[derive(Clone, Debug)]
pub struct AgentRoute {
    route: Arc<Route>,
    listen: SocketAddr,
    secret: AgentSecret,
}

impl fmt::Debug for AgentSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentSecret(…)")
    }
}

impl AgentSecret {
    /// The part of a path by which this asker uses a route.
    pub fn part(&self, route: &str, asker: &Asker) -> String {
        let (kind, name) = match asker {
            Asker::Session(name) => ('s', name),
            Asker::Agent(name) => ('a', name),
        };
        format!("{PREFIX}{}{kind}{}", hex(&self.proof(route, kind, name)[..PROOF]), hex(name.as_bytes()))
    }

    /// Who asks with this part of a path. `None` if it proves nothing.
    pub fn asker(&self, route: &str, part: &str) -> Option<Asker> {
        let (proof, rest) = part.strip_prefix(PREFIX)?.split_at_checked(2 * PROOF)?;
        let (kind, name) = (rest.chars().next()?, String::from_utf8(bytes(rest.get(1..)?)?).ok()?);
        let asker = match kind {
            's' => Asker::Session(name.clone()),
            'a' => Asker::Agent(name.clone()),
            _ => return None,
        };
        let right = hex(&self.proof(route, kind, &name)[..PROOF]);
        // Hashes are compared, so that the time says nothing about the proof.
        (Sha256::digest(proof) == Sha256::digest(right)).then_some(asker)
    }

    fn proof(&self, route: &str, kind: char, name: &str) -> [u8; 32] {
        // Names of routes have no line feed.
        hmac(&self.0, format!("{route}\n{kind}{name}").as_bytes())
    }
}

impl AgentRoute {
    /// The route, reached at this address.
    pub fn new(route: Arc<Route>, listen: SocketAddr, secret: AgentSecret) -> Self {
        Self { route, listen, secret }
    }

    /// The base URL for an asker. It is a secret.
    pub fn url(&self, asker: &Asker) -> String {
        let part = self.secret.part(&self.route.name, asker);
        format!("{}/{part}", self.closed_url())
    }

    /// The base URL without a part, which is no secret and opens nothing.
    pub fn closed_url(&self) -> String {
        format!("http://{}/llm/{}", self.listen, self.route.name)
    }

    /// What the route speaks.
    pub fn format(&self) -> Format {
        self.route.format
    }

    /// The model of the route, if the configuration names one.
    pub fn model(&self) -> Option<&str> {
        self.route.model.as_deref()
    }

    /// Whether the agent's own key is passed on.
    pub fn passes_keys(&self) -> bool {
        matches!(self.route.access, Access::PassThrough(_))
    }
}

/// HMAC-SHA-256 (RFC 2104) with a key that is shorter than a block.
fn hmac(secret: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let padded = |pad: u8| {
        let mut block = [pad; BLOCK];
        block.iter_mut().zip(secret).for_each(|(byte, secret)| *byte ^= secret);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| u8::try_from(digit(pair[0])? * 16 + digit(*pair.get(1)?)?).ok();
    digits.chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::{AgentSecret, Asker, hex, hmac};

    #[test]
    fn the_hash_is_that_of_the_standard() {
        // Made with `openssl dgst -sha256 -mac HMAC -macopt hexkey:0b0b…`, 32 bytes of 0x0b.
        let hash = hmac(&[0x0b; 32], b"Hi There");
        assert_eq!(hex(&hash), "198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7");
    }

    #[test]
    fn a_part_names_its_asker_for_its_route_and_its_secret_only() {
        let secret = AgentSecret([7; 32]);
        for asker in [Asker::Session("ses_1".into()), Asker::Agent("käse/..".into())] {
            let part = secret.part("main", &asker);
            assert!(part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{part}");
            assert_eq!(secret.asker("main", &part), Some(asker));
            assert_eq!(secret.asker("other", &part), None);
            assert_eq!(AgentSecret([8; 32]).asker("main", &part), None);
            for at in 0..part.len() {
                let mut changed = part.clone().into_bytes();
                changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
                assert_eq!(secret.asker("main", std::str::from_utf8(&changed).unwrap()), None, "{at}");
                assert_eq!(secret.asker("main", &part[..at]), None, "{at}");
            }
        }
        assert!(!format!("{secret:?}").contains('7'));
    }
}
