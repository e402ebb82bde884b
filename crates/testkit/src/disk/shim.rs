//! Compiles the shim with the system's C compiler.

use super::{DiskError, file};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const SOURCES: [(&str, &str); 2] = [
    ("faultdisk.c", include_str!("../../shim/faultdisk.c")),
    ("watch.h", include_str!("../../shim/watch.h")),
];

/// Makes a directory for the shim. `LD_PRELOAD` splits at spaces and colons, so its path must have none.
pub(super) fn directory(places: &[&Path]) -> Result<TempDir, DiskError> {
    let fits = |place: &&&Path| !place.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte));
    let Some(place) = places.iter().find(fits) else {
        return Err(DiskError::NoPlace { tried: places.iter().map(|place| place.to_path_buf()).collect() });
    };
    tempfile::Builder::new()
        .prefix("turnstream-faultdisk-")
        .tempdir_in(place)
        .map_err(file("make a directory in", place))
}

/// Where [`compile`] puts the library.
pub(super) fn library(directory: &Path) -> PathBuf {
    directory.join("libfaultdisk.so")
}

/// Compiles into the disk's own directory, so that tests do not share it. It takes about 0.2 s.
pub(super) fn compile(directory: &Path) -> Result<(), DiskError> {
    for (name, text) in SOURCES {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(file("write", &path))?;
    }
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    // A fortified build would replace functions that the shim defines.
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

#[cfg(test)]
mod tests {
    use super::directory;
    use crate::disk::DiskError;
    use std::path::Path;

    #[test]
    fn the_shim_is_never_put_where_a_preload_cannot_name_it() {
        let parent = tempfile::tempdir().unwrap();
        let (spaced, colon, plain) =
            (parent.path().join("a b"), parent.path().join("a:b"), parent.path().join("plain"));
        for place in [&spaced, &colon, &plain] {
            std::fs::create_dir(place).unwrap();
        }
        let made = directory(&[&spaced, &colon, &plain]).unwrap();
        assert!(made.path().starts_with(&plain), "{}", made.path().display());
        let error = directory(&[&spaced, Path::new("/no:where")]).unwrap_err();
        assert!(matches!(&error, DiskError::NoPlace { tried } if tried.len() == 2), "{error}");
    }
}
