//! Checks that the address in `gateway.json` belongs to the gateway that owns the data directory.
//!
//! `gateway.json` stays after a gateway was killed, and any program of any user can then listen at its
//! port. So requests go to that address only while the process in the file holds the directory's lock and
//! owns the listening socket. Linux shows both in `/proc`. On other systems the check is not possible: a
//! token is sent only to a gateway of `--url`, and a gateway without a token is used without the check.

use crate::gateway_file;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The gateway of a data directory, and its address.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    data: PathBuf,
    address: SocketAddr,
}

/// Why the check did not succeed.
#[derive(Debug)]
pub(crate) enum Doubt {
    /// Another program listens there, or none.
    Other(String),
    /// This system or user cannot check it.
    Unseen(String),
}

impl Owner {
    pub(crate) fn new(data: &Path, address: SocketAddr) -> Self {
        Self { data: data.to_owned(), address }
    }

    /// Whether the process in `gateway.json` holds the lock of the directory and listens at the address.
    pub(crate) fn check(&self) -> Result<(), Doubt> {
        let Some(note) = gateway_file::read(&self.data) else {
            return Err(Doubt::Other("gateway.json is gone, and the gateway with it".to_owned()));
        };
        if note.address != self.address {
            return Err(Doubt::Other(format!("the gateway of this directory is at {} now", note.address)));
        }
        if !cfg!(target_os = "linux") || !Path::new("/proc/self/fd").exists() {
            return Err(Doubt::Unseen(format!(
                "only /proc of Linux shows whether process {} is the one that listens at {}",
                note.pid, note.address
            )));
        }
        self.check_process(note.pid)
    }

    fn check_process(&self, pid: u32) -> Result<(), Doubt> {
        let process = PathBuf::from(format!("/proc/{pid}"));
        if !process.exists() {
            return Err(Doubt::Other(format!("gateway.json names process {pid}, which has ended")));
        }
        let unseen = |error: std::io::Error| {
            Doubt::Unseen(format!(
                "the files of process {pid}, which gateway.json names, cannot be seen: {error}"
            ))
        };
        let held = Held::read(&process, &self.data).map_err(unseen)?;
        if !held.has_lock {
            let data = self.data.display();
            return Err(Doubt::Other(format!(
                "gateway.json names process {pid}, which does not hold the lock of {data}"
            )));
        }
        let listening = sockets_at(self.address).map_err(unseen)?;
        let address = self.address;
        if listening.is_empty() {
            return Err(Doubt::Other(format!("nobody listens at {address}, which gateway.json names")));
        }
        if !listening.iter().all(|socket| held.sockets.contains(socket)) {
            return Err(Doubt::Other(format!(
                "another program than process {pid} of gateway.json listens at {address}"
            )));
        }
        Ok(())
    }
}

/// The lock and the sockets that a process has open.
struct Held {
    has_lock: bool,
    /// Inodes of sockets.
    sockets: Vec<u64>,
}

impl Held {
    /// The lock is on the directory itself.
    fn read(process: &Path, directory: &Path) -> std::io::Result<Self> {
        let lock = fs::metadata(directory).map(|found| (found.dev(), found.ino())).ok();
        let mut held = Self { has_lock: false, sockets: Vec::new() };
        for descriptor in fs::read_dir(process.join("fd"))? {
            let path = descriptor?.path();
            // It was closed since the directory was read.
            let Ok(target) = fs::read_link(&path) else { continue };
            let target = target.to_string_lossy();
            if let Some(inode) = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) {
                held.sockets.extend(inode.parse::<u64>());
            } else if lock.is_some()
                && fs::metadata(&path).map(|found| (found.dev(), found.ino())).ok() == lock
                && let Some(number) = path.file_name()
            {
                held.has_lock |= is_locked(&process.join("fdinfo").join(number));
            }
        }
        Ok(held)
    }
}

/// Whether this descriptor holds the exclusive lock: `lock: 1: FLOCK ADVISORY WRITE …`.
fn is_locked(info: &Path) -> bool {
    let info = fs::read_to_string(info).unwrap_or_default();
    info.lines().any(|line| line.starts_with("lock:") && line.contains("FLOCK") && line.contains("WRITE"))
}

/// The inodes of the listening sockets that get connections to this address: the most specific ones.
fn sockets_at(address: SocketAddr) -> std::io::Result<Vec<u64>> {
    let own = listeners("/proc/net/tcp", address.port())?;
    // The file does not exist without IPv6.
    let own_v6 = listeners("/proc/net/tcp6", address.port()).unwrap_or_default();
    let all: Vec<(IpAddr, u64)> = own.into_iter().chain(own_v6).collect();
    let at = |wanted: &dyn Fn(IpAddr) -> bool| -> Vec<u64> {
        all.iter().filter(|(ip, _)| wanted(*ip)).map(|(_, inode)| *inode).collect()
    };
    // Clients of a gateway on all addresses use loopback.
    let target = super::find::reachable(address).ip();
    let exact = at(&|ip| ip == target);
    let same_family = at(&|ip| ip.is_unspecified() && ip.is_ipv4() == target.is_ipv4());
    let any = at(&|ip| ip.is_unspecified());
    Ok([exact, same_family, any].into_iter().find(|found| !found.is_empty()).unwrap_or_default())
}

/// The listening sockets in `/proc/net/tcp` or `tcp6`: address and inode.
fn listeners(table: &str, port: u16) -> std::io::Result<Vec<(IpAddr, u64)>> {
    const LISTEN: &str = "0A";
    let read = |line: &str| {
        // sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (address, at) = fields.get(1)?.split_once(':')?;
        let listens = *fields.get(3)? == LISTEN && u16::from_str_radix(at, 16).ok()? == port;
        listens.then_some(())?;
        Some((kernel_address(address)?, fields.get(9)?.parse().ok()?))
    };
    Ok(fs::read_to_string(table)?.lines().skip(1).filter_map(read).collect())
}

/// An address as the kernel prints it: words of four bytes in the byte order of this machine.
fn kernel_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    match text.len() {
        8 => Some(IpAddr::from(word(0)?)),
        32 => {
            let bytes = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
            let address: [u8; 16] = bytes.try_into().ok()?;
            Some(IpAddr::from(address).to_canonical())
        }
        _ => None,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{Doubt, Owner, kernel_address, sockets_at};
    use std::net::{IpAddr, TcpListener};

    #[test]
    fn the_kernels_addresses_are_read() {
        let loopback = u32::from_ne_bytes([127, 0, 0, 1]);
        assert_eq!(kernel_address(&format!("{loopback:08X}")), Some(IpAddr::from([127, 0, 0, 1])));
        let one = u32::from_ne_bytes([0, 0, 0, 1]);
        assert_eq!(kernel_address(&format!("{:024X}{one:08X}", 0)), Some("::1".parse().unwrap()));
        assert_eq!(kernel_address("x"), None);
    }

    #[test]
    fn only_who_holds_the_lock_and_the_socket_is_the_owner() {
        let data = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let owner = Owner::new(data.path(), address);
        let why = |checked: Result<(), Doubt>| match checked {
            Err(Doubt::Other(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(why(owner.check()).contains("gateway.json is gone"));
        let note = {
            use crate::gateway_file::{GatewayFile, TokenPlace};
            GatewayFile::write(data.path(), address, TokenPlace::Directory).unwrap()
        };
        assert!(why(owner.check()).contains("does not hold the lock"));
        let lock = std::fs::File::open(data.path()).unwrap();
        assert!(why(owner.check()).contains("does not hold the lock"), "an open directory is no lock");
        lock.try_lock().unwrap();
        owner.check().unwrap();
        assert_eq!(sockets_at(address).unwrap().len(), 1);
        drop(listener);
        assert!(why(owner.check()).contains("nobody listens"));
        let elsewhere = Owner::new(data.path(), "127.0.0.1:1".parse().unwrap());
        assert!(why(elsewhere.check()).contains(&address.to_string()));
        drop(note);
    }

    #[test]
    fn a_gateway_that_listens_everywhere_is_found_on_loopback() {
        let listener = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0")).unwrap();
        assert_eq!(sockets_at(listener.local_addr().unwrap()).unwrap().len(), 1);
    }
}
