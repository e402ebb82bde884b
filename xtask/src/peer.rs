//! The other gateway in `bench gateway`, installed into `target/peers`.

use crate::npm::{Folder, Package};
use std::path::PathBuf;

const PEERS: Folder = Folder {
    name: "peers",
    what_for: "the gateway benchmark",
    packages: &[Package { name: "sandbox-agent", version: "0.4.2", command: Some("sandbox-agent") }],
};

/// Installs it unless it is installed and works, and returns its native binary. The package's command is a
/// Node script around it.
pub(crate) fn install() -> Result<PathBuf, String> {
    let dir = PEERS.install()?;
    let platform = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "linux-x64",
        ("linux", "aarch64") => "linux-arm64",
        ("macos", "aarch64") => "darwin-arm64",
        ("macos", "x86_64") => "darwin-x64",
        (os, arch) => return Err(format!("sandbox-agent has no binary for {os} on {arch}")),
    };
    Ok(dir.join(format!("node_modules/@sandbox-agent/cli-{platform}/bin/sandbox-agent")))
}
