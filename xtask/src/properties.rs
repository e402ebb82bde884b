//! The property tests of the workspace, and their seeds.

use crate::cargo::root;
use std::path::{Path, PathBuf};

/// The variable with proptest's seed. `.cargo/config.toml` sets it for every run that does not.
pub(crate) const SEED: &str = "PROPTEST_RNG_SEED";

/// A new seed.
pub(crate) fn fresh_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    // Short enough to type.
    (now.as_nanos() % 1_000_000_007) as u64
}

/// The nextest filter for all files with property tests.
pub(crate) fn filterset() -> Result<String, String> {
    filterset_of(|_| true)
}

/// The nextest filter for files whose property tests set their own number of cases.
pub(crate) fn filterset_with_own_number() -> Result<String, String> {
    filterset_of(|text| text.contains("cases:"))
}

fn filterset_of(is_wanted: impl Fn(&str) -> bool) -> Result<String, String> {
    let crates = root().join("crates");
    let mut files = Vec::new();
    collect(&crates, &mut files)?;
    let mut filters = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)
            .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let has_property = text.contains("proptest! {") || text.contains("TestRunner::new");
        if has_property && is_wanted(&text) {
            filters.extend(file.strip_prefix(&crates).ok().and_then(filter));
        }
    }
    filters.sort();
    if filters.is_empty() { Err("no property test was found".to_owned()) } else { Ok(filters.join(" + ")) }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let unreadable = |error| format!("cannot read {}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The filter of a file: `llm/tests/retry/waits.rs` is the module `waits` of the test binary `retry` of
/// `turnstream-llm`.
fn filter(file: &Path) -> Option<String> {
    let without_extension = file.with_extension("");
    let parts: Vec<&str> = without_extension.iter().filter_map(|part| part.to_str()).collect();
    let (krate, parts) = parts.split_first()?;
    let package = format!("package(turnstream-{krate})");
    let module = |parts: &[&str]| match parts.strip_suffix(&["mod"]).unwrap_or(parts) {
        [] => String::new(),
        parts => format!(" & test(/^{}::/)", parts.join("::")),
    };
    match parts {
        ["tests", binary, rest @ ..] => Some(format!("({package} & binary({binary}){})", module(rest))),
        ["src", rest @ ..] => Some(format!("({package} & kind(lib){})", module(rest))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{filter, filterset, filterset_with_own_number};
    use std::path::Path;

    #[test]
    fn a_file_is_found_by_its_binary_and_module() {
        let filter = |file| filter(Path::new(file)).unwrap();
        assert_eq!(filter("sse/tests/properties.rs"), "(package(turnstream-sse) & binary(properties))");
        assert_eq!(
            filter("llm/tests/retry/waits.rs"),
            "(package(turnstream-llm) & binary(retry) & test(/^waits::/))"
        );
        assert_eq!(
            filter("log/src/embedded/find/mod.rs"),
            "(package(turnstream-log) & kind(lib) & test(/^embedded::find::/))"
        );
    }

    #[test]
    fn the_property_tests_of_the_workspace_are_found() {
        let laws = "(package(turnstream-model) & binary(it) & test(/^laws::/))";
        let filterset = filterset().unwrap();
        assert!(filterset.contains(laws), "{filterset}");
        let own_number = filterset_with_own_number().unwrap();
        assert!(!own_number.contains(laws), "{own_number}");
        assert!(own_number.contains("(package(turnstream-redact) & binary(properties))"), "{own_number}");
    }
}
