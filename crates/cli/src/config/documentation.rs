//! The reference in docs/configuration.md is generated from the declarations of the keys, and checked here.

use super::agent::{AgentKeys, BudgetTable};
use super::chat::ChatTable;
use super::file::{File, Timeouts};
use super::keys::{Key, Source};
use super::limits::Limits;
use super::llm::RouteKeys;
use super::redaction::Redaction;
use super::retention::RetentionTable;
use clap::CommandFactory;

/// All tables with a heading, in the order of the page.
const TABLES: [(&str, &[Key]); 9] = [
    ("Keys at the top of the file", File::KEYS),
    ("`[agents.NAME]`", AgentKeys::KEYS),
    ("`[agents.NAME.budget]`: caps of turns and sessions", BudgetTable::KEYS),
    ("`[chat]`: chats of web apps ([ai-sdk.md](ai-sdk.md))", ChatTable::KEYS),
    ("`[timeouts]`", Timeouts::KEYS),
    ("`[redaction]`", Redaction::KEYS),
    ("`[retention]`", RetentionTable::KEYS),
    ("`[limits]`", Limits::KEYS),
    ("`[llm.routes.NAME]`: routes to model providers", RouteKeys::KEYS),
];

/// The flag of a key, from the command line of `serve`.
fn flag(key: &Key) -> Option<String> {
    let command = crate::Cli::command();
    let serve = command.find_subcommand("serve")?;
    let variable = key.variable();
    let argument = serve
        .get_arguments()
        .find(|argument| argument.get_env().is_some_and(|name| name.to_str() == Some(variable.as_str())))?;
    Some(format!("--{}", argument.get_long()?))
}

fn row(key: &Key) -> String {
    let overridden = match key.source {
        Source::File => String::new(),
        Source::Variable => format!("`{}`", key.variable()),
        Source::Flag => format!("`{}`, `{}`", flag(key).unwrap_or_default(), key.variable()),
    };
    let kinds: Vec<String> = key.agents.iter().map(|agent| format!("`{agent}`")).collect();
    let agent = if kinds.is_empty() { String::new() } else { format!("({}) ", kinds.join(", ")) };
    let meaning: Vec<&str> = key.meaning.iter().map(|line| line.trim()).collect();
    format!("| `{}` | `{}` | {overridden} | {agent}{} |\n", key.name, key.example, meaning.join(" "))
}

fn reference() -> String {
    let mut text = String::new();
    for (heading, keys) in TABLES {
        text +=
            &format!("\n### {heading}\n\n| key | example | flag, variable | meaning |\n|---|---|---|---|\n");
        text += &keys.iter().map(row).collect::<String>().replace("|  |", "| |");
    }
    text + "\n"
}

/// `TURNSTREAM_UPDATE=1` writes it anew.
#[test]
fn the_page_about_the_configuration_lists_every_key() {
    const BEGIN: &str = "<!-- keys: generated from the declarations in crates/cli/src/config -->\n";
    const END: &str = "<!-- end of keys -->\n";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (listed, after) = rest.split_once(END).unwrap();
    if std::env::var_os("TURNSTREAM_UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", reference())).unwrap();
        return;
    }
    assert_eq!(listed, reference(), "TURNSTREAM_UPDATE=1 writes it anew");
}

#[test]
fn every_key_that_is_declared_with_a_flag_has_one_and_only_those() {
    for (_, keys) in TABLES {
        for key in keys {
            assert_eq!(flag(key).is_some(), key.source == Source::Flag, "{}", key.name);
        }
    }
}

#[test]
fn every_example_is_what_its_key_takes() {
    let script = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(script.path(), "[]").unwrap();
    for (_, keys) in TABLES {
        for key in keys {
            let kind = match key.agents.first() {
                Some(agent) => format!("kind = {agent:?}\n"),
                None if key.table.starts_with("agents.NAME") && key.name != "kind" => {
                    "kind = \"opencode\"\n".to_owned()
                }
                None => String::new(),
            };
            // These say nothing without the address of a server.
            let url = if key.name.starts_with("password_") || key.name == "user" {
                "url = \"http://127.0.0.1:4096\"\n"
            } else {
                ""
            };
            let example = key.example.replace("/srv/demo.json", script.path().to_str().unwrap());
            let text = match key.table {
                "" => format!("{} = {example}\n", key.name),
                "agents.NAME.budget" => format!("[agents.NAME]\n{kind}budget.{} = {example}\n", key.name),
                table => format!("[{table}]\n{kind}{url}{} = {example}\n", key.name),
            };
            toml::from_str::<File>(&text).expect(&text);
        }
    }
}
