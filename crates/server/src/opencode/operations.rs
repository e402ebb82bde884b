//! Every operation of opencode's API at the pinned version, and what answers it.

use super::answer::Failure;
use super::{asks, catalog, commands, files, messages, prompts, sessions, viewer, web_page};
use crate::app::App;
use axum::Router;
use axum::http::{Method, Uri};
use axum::routing::{MethodFilter, MethodRouter, on};
use std::sync::Arc;

/// The operations of the server's own description: method, path, name.
const ALL: &str = include_str!("operations.txt");

/// How far an operation works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Support {
    /// As in opencode.
    Yes,
    /// As in opencode, for agents that can. For others it is refused with 501.
    Agents,
    /// It reads what the gateway has. What would change it is not supported.
    ReadOnly,
    /// It answers, truly, that there is none of it.
    Empty,
    /// It is refused with 501.
    No,
}

/// One operation.
pub(crate) struct Operation {
    method: &'static str,
    path: &'static str,
    name: &'static str,
}

/// All operations.
fn all() -> impl Iterator<Item = Operation> {
    ALL.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some(Operation { method: words.next()?, path: words.next()?, name: words.next()? })
    })
}

/// All routes, without a prefix.
pub(crate) fn router() -> Router<Arc<App>> {
    let mut router = Router::new();
    for Operation { method, path, name } in all() {
        let Some(filter) = filter(method) else { continue };
        let path = path.replace("/*", "/{*path}");
        router = router.route(&path, answered(name, filter).1);
    }
    router.fallback(nothing).method_not_allowed_fallback(wrong_method)
}

/// All routes without a prefix, and opencode's web page at all other paths.
pub(crate) fn router_with_page() -> Router<Arc<App>> {
    router().fallback(web_page::file)
}

fn filter(method: &str) -> Option<MethodFilter> {
    let method = Method::from_bytes(method.as_bytes()).ok()?;
    MethodFilter::try_from(method).ok()
}

/// What answers an operation.
fn answered(name: &'static str, method: MethodFilter) -> (Support, MethodRouter<Arc<App>>) {
    use Support::{Agents, Empty, ReadOnly, Yes};
    match name {
        "session.list" => (Yes, on(method, sessions::list)),
        "session.create" => (Yes, on(method, sessions::create)),
        "session.get" => (Yes, on(method, sessions::show)),
        "session.update" => (Yes, on(method, sessions::update)),
        "session.delete" => (Yes, on(method, sessions::delete)),
        "session.children" => (Yes, on(method, sessions::children)),
        "session.todo" => (Yes, on(method, sessions::todo)),
        "session.diff" => (Yes, on(method, sessions::diff)),
        "session.status" => (Yes, on(method, sessions::status)),
        "session.messages" => (Yes, on(method, messages::list)),
        "session.message" => (Yes, on(method, messages::show)),
        "session.prompt" => (Yes, on(method, prompts::prompt)),
        "session.prompt_async" => (Yes, on(method, prompts::prompt_async)),
        "session.abort" => (Yes, on(method, prompts::abort)),
        "session.command" => (Agents, on(method, commands::run)),
        "session.init" => (Agents, on(method, commands::init)),
        "session.shell" => (Agents, on(method, commands::shell)),
        "session.summarize" => (Agents, on(method, commands::summarize)),
        "command.list" => (ReadOnly, on(method, commands::list)),
        "permission.list" => (Yes, on(method, asks::permissions)),
        "permission.reply" => (Yes, on(method, asks::reply)),
        "permission.respond" => (Yes, on(method, asks::respond)),
        "question.list" => (Yes, on(method, asks::questions)),
        "question.reply" => (Yes, on(method, asks::answer)),
        "question.reject" => (Yes, on(method, asks::reject)),
        "event.subscribe" => (Yes, on(method, viewer::of_directory)),
        "global.event" => (Yes, on(method, viewer::of_all)),
        "global.health" | "v2.health.get" => (Yes, on(method, catalog::health)),
        "app.log" => (Yes, on(method, catalog::log)),
        "app.agents" => (ReadOnly, on(method, catalog::agent_list)),
        "config.get" | "global.config.get" => (ReadOnly, on(method, catalog::config)),
        "config.providers" => (ReadOnly, on(method, catalog::config_providers)),
        "provider.list" => (ReadOnly, on(method, catalog::provider_list)),
        "path.get" => (ReadOnly, on(method, catalog::path)),
        "project.current" => (ReadOnly, on(method, catalog::current_project)),
        "project.list" => (ReadOnly, on(method, catalog::projects)),
        "project.directories" => (ReadOnly, on(method, catalog::directories)),
        "v2.location.get" => (ReadOnly, on(method, catalog::here)),
        "vcs.get" => (ReadOnly, on(method, files::vcs)),
        "find.files" => (Yes, on(method, files::find)),
        "v2.fs.find" => (Yes, on(method, files::find_here)),
        "file.list" => (Yes, on(method, files::list)),
        "file.read" => (Yes, on(method, files::content)),
        "experimental.capabilities.get" => (Empty, on(method, catalog::capabilities)),
        "experimental.console.get" => (Empty, on(method, catalog::console)),
        "mcp.status" | "provider.auth" | "experimental.resource.list" => (Empty, on(method, catalog::no_map)),
        "lsp.status"
        | "formatter.status"
        | "app.skills"
        | "experimental.workspace.list"
        | "experimental.workspace.status"
        | "experimental.workspace.adapter.list"
        | "worktree.list"
        | "pty.list" => (Empty, on(method, catalog::no_list)),
        "v2.integration.list" | "v2.reference.list" | "v2.command.list" | "v2.skill.list" => {
            (Empty, on(method, catalog::nothing_here))
        }
        _ => {
            let refuse = move || async move {
                Failure::not_supported(format!("{name} is not supported: Turnstream does not offer it"))
            };
            (Support::No, on(method, refuse))
        }
    }
}

pub(super) async fn nothing(method: Method, uri: Uri) -> Failure {
    Failure::not_found(format!("{method} {} is no operation of opencode's API", uri.path()))
}

async fn wrong_method(method: Method, uri: Uri) -> Failure {
    Failure::wrong_method(format!("{method} {} is no operation of opencode's API", uri.path()))
}

#[cfg(test)]
mod tests {
    use super::{Operation, Support, all, answered, filter};
    use std::fmt::Write;
    use std::path::Path;

    /// The table of operations, as in the documentation.
    fn table() -> String {
        let mut table = String::from("| operation | method, path | support |\n|---|---|---|\n");
        for Operation { method, path, name } in all() {
            let support = match answered(name, filter(method).unwrap()).0 {
                Support::Yes => "yes",
                Support::Agents => "yes, if the agent can",
                Support::ReadOnly => "read-only",
                Support::Empty => "yes, always empty",
                Support::No => "no (501)",
            };
            writeln!(table, "| `{name}` | `{method} {path}` | {support} |").unwrap();
        }
        table
    }

    #[test]
    fn the_documentation_lists_every_operation_with_its_support() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/opencode-compat.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let (begin, end) = ("<!-- operations -->\n", "<!-- end of operations -->");
        let (before, rest) = page.split_once(begin).unwrap();
        let (listed, after) = rest.split_once(end).unwrap();
        let table = table();
        if std::env::var_os("TURNSTREAM_UPDATE").is_some() {
            std::fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
            return;
        }
        assert_eq!(listed, table, "run this test with TURNSTREAM_UPDATE=1");
    }
}
