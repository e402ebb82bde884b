//! The failed tests of a run, from nextest's report.

use crate::cargo::target;
use std::path::PathBuf;

/// The path of the report: `junit.path` of the profile in `.config/nextest.toml`.
fn path(profile: &str) -> PathBuf {
    target().join("nextest").join(profile).join("junit.xml")
}

/// Removes the report of an earlier run, so that it is not taken for this run's.
pub(crate) fn forget(profile: &str) {
    match std::fs::remove_file(path(profile)) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => eprintln!("cannot remove the report of an earlier run: {error}"),
    }
}

/// The names of the failed tests of the last run, each with its binary.
pub(crate) fn failed_tests(profile: &str) -> Vec<String> {
    std::fs::read_to_string(path(profile)).map_or_else(|_| Vec::new(), |report| failed_in(&report))
}

fn failed_in(report: &str) -> Vec<String> {
    let cases = report.split("<testcase ").skip(1);
    let failed = cases.filter(|case| {
        let body = case.split("</testcase>").next().unwrap_or(case);
        body.contains("<failure") || body.contains("<error")
    });
    failed.map(|case| format!("{} {}", attribute(case, "classname"), attribute(case, "name"))).collect()
}

/// An attribute of the first tag.
fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
    let tag = tag.split('>').next().unwrap_or(tag);
    let mut words = tag.split_whitespace();
    let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix("=\"")?.split('"').next());
    value.unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::failed_in;

    #[test]
    fn the_tests_that_failed_are_named_and_no_others() {
        let report = r#"<testsuites><testsuite name="turnstream-llm::retry">
            <testcase name="evidence::one" classname="turnstream-llm::retry" time="0.1"></testcase>
            <testcase name="evidence::two" classname="turnstream-llm::retry" time="0.1">
              <failure type="test failure">x</failure></testcase>
            <testcase name="three" classname="turnstream-cli" time="0.1"/>
            <testcase name="four" classname="turnstream-cli" time="0.1"><failure/></testcase>
            </testsuite><testsuite name="turnstream-testkit::real_agents"></testsuite></testsuites>"#;
        assert_eq!(failed_in(report), ["turnstream-llm::retry evidence::two", "turnstream-cli four"]);
    }
}
