//! Compiles the shim with the system's C compiler.

use super::{DiskError, file};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: [(&str, &str); 2] = [
    ("faultdisk.c", include_str!("../../shim/faultdisk.c")),
    ("watch.h", include_str!("../../shim/watch.h")),
];

/// Where [`compile`] puts the library.
pub(super) fn library(directory: &Path) -> PathBuf {
    directory.join("libfaultdisk.so")
}

/// Compiles into a directory of the disk's own: takes about 0.2 s, and no two tests can meet there.
pub(super) fn compile(directory: &Path) -> Result<(), DiskError> {
    for (name, text) in SOURCES {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(file("write", &path))?;
    }
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    // A fortified build replaces some of the functions that the shim defines.
    let flags = ["-std=gnu11", "-O1", "-shared", "-fPIC", "-pthread", "-U_FORTIFY_SOURCE"];
    let output = Command::new(&compiler)
        .args(flags)
        .args(["-Wall", "-Wextra", "-Werror", "faultdisk.c", "-o"])
        .arg(library(directory))
        .current_dir(directory)
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let reason = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(DiskError::Compiler { compiler, reason })
        }
        Err(error) => Err(DiskError::Compiler { compiler, reason: error.to_string() }),
    }
}
