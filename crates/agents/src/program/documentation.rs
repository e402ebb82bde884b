//! The tables in docs/agents.md are generated from the known agents, and checked here.

use super::known::{Adapter, KNOWN, KnownAgent};
use super::login::FileAt;
use turnstream_adapter::Login;

const BEGIN: &str = "<!-- agents: generated from crates/agents/src/program/known.rs -->\n";
const END: &str = "<!-- end of agents -->\n";

fn code(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn found(known: &KnownAgent) -> String {
    let runs = match known.adapter {
        Adapter::Opencode | Adapter::Claude | Adapter::Codex | Adapter::Acp(_) => "yes",
        Adapter::NotYet => "not yet",
    };
    let install = known.install.map_or_else(String::new, |install| format!("`{install}`"));
    let (command, KnownAgent { title, tested, .. }) = (known.words().join(" "), known);
    format!("| `{command}` | {title} | {runs} | {} | {install} |\n", tested.join(", "))
}

fn variables(known: &KnownAgent) -> String {
    let kind = match known.adapter {
        Adapter::Acp(_) => format!("`acp`, `{}`", known.words().join(" ")),
        Adapter::Opencode | Adapter::Claude | Adapter::Codex | Adapter::NotYet => format!("`{}`", known.kind),
    };
    format!("| {kind} | {} | {} |\n", code(known.pass_env), code(known.withheld))
}

fn choices(known: &KnownAgent) -> String {
    format!("| `{}` | {} | {} |\n", known.kind, code(known.models), code(known.modes))
}

fn login(known: &KnownAgent) -> Option<String> {
    let facts = known.login.as_ref()?;
    let file = |file: &FileAt| match (file.variable, file.home) {
        ("", home) => format!("`{home}/{}`", file.file),
        (variable, "") => format!("`~/{}` (or in `${variable}`)", file.file),
        (variable, home) => format!("`~/{home}/{}` (or in `${variable}`)", file.file),
    };
    let either = |variables: &[&str], files: &[FileAt]| {
        let variables = variables.iter().map(|name| format!("`{name}`"));
        variables.chain(files.iter().map(file)).collect::<Vec<_>>().join(", ")
    };
    let otherwise = match facts.otherwise {
        Login::LoggedIn => "logged in",
        Login::LoggedOut => "logged out",
        Login::Unknown => "unknown",
    };
    Some(format!(
        "| `{}` | {} | {} | {otherwise} | `{}` |\n",
        known.kind,
        either(facts.variables, facts.files),
        either(facts.unsure_variables, facts.unsure_files),
        facts.command
    ))
}

fn tables() -> String {
    let adapted = || KNOWN.iter().filter(|known| !known.pass_env.is_empty());
    let chooses = KNOWN.iter().filter(|known| !known.modes.is_empty());
    let mut text = String::new();
    for (head, rows) in [
        (
            "### Which programs are found\n\n| command | agent | can be run | tested versions | installed with |\n\
             |---|---|---|---|---|\n",
            KNOWN.iter().map(|known| found(known)).collect::<String>(),
        ),
        (
            "### Which variables each kind gets\n\n| kind | passed by default | never passed by a `*` |\n|---|---|---|\n",
            adapted().map(|known| variables(known)).collect(),
        ),
        (
            "### How a login is told\n\n| kind | logged in if one exists | unknown if one exists | otherwise | log in with \
             |\n|---|---|---|---|---|\n",
            KNOWN.iter().filter_map(|known| login(known)).collect(),
        ),
        (
            "### Models and modes\n\n| kind | models | modes |\n|---|---|---|\n",
            chooses.map(|known| choices(known)).collect(),
        ),
    ] {
        text += &format!("\n{head}{}", rows.replace("|  |", "| |").replace("|  |", "| |"));
    }
    text + "\n"
}

/// `TURNSTREAM_UPDATE=1` writes it anew.
#[test]
#[cfg(target_os = "linux")]
fn the_page_about_agents_lists_every_fact() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (listed, after) = rest.split_once(END).unwrap();
    if std::env::var_os("TURNSTREAM_UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", tables())).unwrap();
        return;
    }
    assert_eq!(listed, tables(), "TURNSTREAM_UPDATE=1 writes it anew");
}
