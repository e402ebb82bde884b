//! Which keys of the file hold secrets, by their names. Errors leave out their values, and a file that has
//! them should be readable by its owner only.

use super::agent::{AgentKeys, BudgetTable};
use super::file::{File, Timeouts};
use super::limits::Limits;
use super::llm::RouteKeys;
use super::redaction::{Redaction, is_secret};
use super::retention::RetentionTable;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use toml::{Table, Value};

/// Keys that no table declares, and whose values are no secrets.
const PLAIN: [&str; 6] = ["name", "regex", "prefix", "timeouts", "retention", "limits"];

/// Whether an error may show the value of this key. The value of an unknown key is not shown: the key may be
/// `token` with a spelling mistake.
pub(super) fn may_be_shown(key: &str) -> bool {
    (is_declared(key) || PLAIN.contains(&key)) && !may_hold_secret(key)
}

/// Whether a table has a key of this name.
pub(super) fn is_declared(key: &str) -> bool {
    let tables = [
        File::KEYS,
        AgentKeys::KEYS,
        BudgetTable::KEYS,
        Timeouts::KEYS,
        Redaction::KEYS,
        RetentionTable::KEYS,
        Limits::KEYS,
        RouteKeys::KEYS,
    ];
    tables.into_iter().flatten().any(|declared| declared.name == key)
}

/// Whether the values of this key, or of the keys below it, may be secrets.
pub(super) fn may_hold_secret(key: &str) -> bool {
    is_secret(key) || key == "env" || key == "value"
}

/// What to tell about a file that holds secrets and that other users can read.
pub(crate) fn exposure(path: &Path) -> Option<String> {
    let found = path.metadata().ok()?;
    // The group of a file of another user is how this user can read it.
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    let others = if is_own { 0o077 } else { 0o007 };
    if found.mode() & others == 0 {
        return None;
    }
    let table: Table = toml::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
    let mut secrets = Vec::new();
    collect(&table, "", &mut secrets);
    let fix = crate::shell::quoted_path(path);
    let (shown, keys) = (path.display(), secrets.join(", "));
    let told =
        format!("other users can read the configuration {shown}, which has {keys}. Run: chmod 600 {fix}");
    (!secrets.is_empty()).then_some(told)
}

/// Adds the names of keys with secrets, as in `agents.a.env.API_KEY`.
fn collect(table: &Table, above: &str, secrets: &mut Vec<String>) {
    for (key, value) in table {
        let name = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            Value::String(text) if is_secret_value(above, key, text) => secrets.push(name),
            Value::Table(below) => collect(below, &name, secrets),
            Value::Array(list) => {
                for below in list.iter().filter_map(Value::as_table) {
                    collect(below, &name, secrets);
                }
            }
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_) => {}
        }
    }
}

fn is_secret_value(above: &str, key: &str, text: &str) -> bool {
    let names_its_place = key.ends_with("_env") || key.ends_with("_file");
    let has_credentials = text.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
    (is_secret(key) && !names_its_place) || (above.ends_with("literals") && key == "value") || has_credentials
}

#[cfg(test)]
mod tests {
    use super::exposure;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_with_secrets_that_others_can_read_is_told_of() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.toml");
        let told = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            exposure(&path)
        };
        let secrets = "token = \"a\"\n[agents.a.env]\nAPI_KEY = \"b\"\nMODE = \"c\"\n\
                       [[redaction.literals]]\nname = \"d\"\nvalue = \"e\"\n";
        let expected = format!(
            "other users can read the configuration {path}, which has agents.a.env.API_KEY, redaction.literals.value, token. \
             Run: chmod 600 {path}",
            path = path.display()
        );
        assert_eq!(told(secrets, 0o644).as_deref(), Some(expected.as_str()));
        assert!(told(secrets, 0o640).is_some());
        assert_eq!(told(secrets, 0o600), None);
        let url = "[agents.a]\nurl = \"http://me:b@h\"";
        assert!(told(url, 0o644).is_some_and(|told| told.contains("has agents.a.url.")));
        let plain = "listen = \"127.0.0.1:1\"\n[agents.a]\npassword_env = \"P\"\nenv = { MODE = \"1\" }";
        assert_eq!(told(plain, 0o644), None);
    }
}
