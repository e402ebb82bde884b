//! `pass_env`: which variables of the gateway an agent gets.

use std::ffi::OsString;

/// Whether a pattern names a variable. A `*` at the end stands for any rest of the name, also an empty one.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == pattern,
    }
}

/// The variables that the patterns name, out of these. A variable that is withheld is passed only by its
/// whole name. One whose name is not UTF-8 is never passed.
pub fn passed(
    patterns: &[impl AsRef<str>],
    withheld: &[&str],
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let is_passed = |name: &str| {
        let named = patterns.iter().any(|pattern| pattern.as_ref() == name);
        named || (!withheld.contains(&name) && patterns.iter().any(|pattern| fits(pattern.as_ref(), name)))
    };
    variables.into_iter().filter(|(name, _)| name.to_str().is_some_and(is_passed)).collect()
}

#[cfg(test)]
mod tests {
    use super::passed;
    use std::ffi::OsString;

    fn names(patterns: &[&str], withheld: &[&str]) -> Vec<String> {
        let variables = ["A_KEY", "A_", "AB", "A_SERVER", "IS_SANDBOX"]
            .map(|name| (OsString::from(name), OsString::from("value")));
        let passed = passed(patterns, withheld, variables);
        passed.into_iter().map(|(name, _)| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_star_stands_for_any_rest_and_never_for_what_is_withheld() {
        assert_eq!(names(&["A_*"], &["A_SERVER"]), ["A_KEY", "A_"]);
        assert_eq!(names(&["A_*", "A_SERVER"], &["A_SERVER"]), ["A_KEY", "A_", "A_SERVER"]);
        assert_eq!(names(&["AB", "NOT_SET"], &[]), ["AB"]);
        assert_eq!(names(&[], &[]), [""; 0]);
    }
}
