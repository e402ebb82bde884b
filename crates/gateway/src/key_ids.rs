//! Ids of sessions that are created with a key. The same key always gives the same id. To compute it takes
//! the secret of the data directory, so whoever guesses a key does not know the session.

use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use turnstream_model::id::SessionId;
use turnstream_model::stable_hash;

/// The file of the secret, in the data directory.
const FILE: &str = "id-secret";
/// Bytes of the secret.
const SECRET: usize = 32;
/// The block size of SHA-256, in bytes.
const BLOCK: usize = 64;

/// The secret of a data directory, which ids are made with.
pub(crate) struct KeyIds {
    secret: [u8; SECRET],
}

/// Why the secret cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdSecretError {
    /// It cannot be read, or made at the first start.
    #[error("cannot use {}, the secret that ids of sessions are made with", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file does not hold what was written to it.
    #[error(
        "{} is damaged: it must hold the secret that ids of sessions are made with, and its checksum. Restore it from a \
         backup. Or remove it: then a new one is made, and a repeated request for a session with a key creates a second \
         session", .0.display()
    )]
    Damaged(PathBuf),
}

impl KeyIds {
    /// Reads the secret, or makes one if the directory has none. It is durable when this returns. The
    /// directory must be locked.
    pub(crate) fn open(data: &Path) -> Result<Self, IdSecretError> {
        let path = data.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => match parse(&bytes) {
                Some(secret) => Ok(Self { secret }),
                None => Err(IdSecretError::Damaged(path)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => match make(data, &path) {
                Ok(secret) => Ok(Self { secret }),
                Err(source) => Err(IdSecretError::File { path, source }),
            },
            Err(source) => Err(IdSecretError::File { path, source }),
        }
    }

    /// The id of the session with this key.
    pub(crate) fn session(&self, key: &str) -> SessionId {
        let hash = hmac(&self.secret, key.as_bytes());
        // 128 bits cannot be guessed. If two keys give one id, the key in the log tells them apart.
        SessionId::from(format!("ses_{}", hex(&hash[..16])))
    }
}

/// The id that versions before the secret gave to the session with this key: FNV-1a over 128 bits. Anybody
/// can compute it, so it is only looked up.
pub(crate) fn former_session(key: &str) -> SessionId {
    SessionId::from(format!("ses_{:032x}", stable_hash(key.as_bytes())))
}

/// HMAC-SHA-256 (RFC 2104) with a key that is shorter than a block.
fn hmac(secret: &[u8; SECRET], message: &[u8]) -> [u8; 32] {
    let padded = |pad: u8| {
        let mut block = [pad; BLOCK];
        block.iter_mut().zip(secret).for_each(|(byte, secret)| *byte ^= secret);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

/// One line: the secret, and the beginning of its hash as a checksum.
fn line(secret: &[u8; SECRET]) -> String {
    format!("{} {}\n", hex(secret), hex(&Sha256::digest(secret)[..8]))
}

fn parse(bytes: &[u8]) -> Option<[u8; SECRET]> {
    let digits = str::from_utf8(bytes.get(..2 * SECRET)?).ok()?;
    let mut secret = [0; SECRET];
    for (index, byte) in secret.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    (line(&secret).as_bytes() == bytes).then_some(secret)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a secret under a temporary name, so that a crash leaves a whole file or none.
fn make(data: &Path, path: &Path) -> io::Result<[u8; SECRET]> {
    let mut secret = [0; SECRET];
    File::open("/dev/urandom")?.read_exact(&mut secret)?;
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        // A crash left it, or nothing did.
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(line(&secret).as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(data)?.sync_all()?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_hash_is_that_of_the_standard() {
        // Made with `openssl dgst -sha256 -mac HMAC -macopt hexkey:0b0b…`, 32 bytes of 0x0b.
        let hash = hmac(&[0x0b; SECRET], b"Hi There");
        assert_eq!(hex(&hash), "198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7");
    }

    #[test]
    fn the_secret_is_made_once_and_only_its_owner_reads_it() {
        let data = tempfile::tempdir().unwrap();
        // What a crash left.
        fs::write(data.path().join("id-secret.new"), "half").unwrap();
        let first = KeyIds::open(data.path()).unwrap();
        let path = data.path().join(FILE);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let again = KeyIds::open(data.path()).unwrap();
        assert_eq!(first.session("k"), again.session("k"));
        assert_ne!(first.session("k"), first.session("l"));
        let names: Vec<_> =
            fs::read_dir(data.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [FILE]);

        let other = tempfile::tempdir().unwrap();
        assert_ne!(KeyIds::open(other.path()).unwrap().session("k"), first.session("k"));
    }

    #[test]
    fn a_short_or_damaged_secret_is_an_error_and_is_not_replaced() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join(FILE);
        KeyIds::open(data.path()).unwrap();
        let whole = fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        flipped[10] = if flipped[10] == b'0' { b'1' } else { b'0' };
        for damaged in
            [vec![], whole[..40].to_vec(), flipped, [whole.clone(), whole].concat(), vec![0xff; 82]]
        {
            fs::write(&path, &damaged).unwrap();
            let error = KeyIds::open(data.path()).err().unwrap().to_string();
            assert!(error.contains("id-secret is damaged"), "{error}");
            assert_eq!(fs::read(&path).unwrap(), damaged);
        }
    }
}
