//! The MCP servers of a session in the form of Codex's configuration, which a thread can have of its own.

use serde_json::{Map, Value, json};
use turnstream_adapter::{McpServer, McpTransport, NamedValue, RefusedMcp};

/// Whether Codex takes these servers.
pub(super) fn check(servers: &[McpServer]) -> Result<(), RefusedMcp> {
    for McpServer { name, transport } in servers {
        if name.contains(' ') {
            // Codex: "must match pattern ^[a-zA-Z0-9_:@/.-]+$".
            return Err(RefusedMcp(format!("Codex takes no name with a space: rename the server {name:?}")));
        }
        match transport {
            McpTransport::Stdio { .. } | McpTransport::Http { .. } => {}
            McpTransport::Sse { .. } => {
                let problem =
                    "Codex takes no MCP servers of the type \"sse\"; use \"http\" or a command (stdio)";
                return Err(RefusedMcp(problem.to_owned()));
            }
        }
    }
    Ok(())
}

/// Adds the servers to the parameters of `thread/start` or `thread/resume`. Codex does not keep them.
pub(super) fn add_to_thread(params: &mut Value, servers: &[McpServer]) {
    let server = |server: &McpServer| Some((server.name.clone(), transport(&server.transport)?));
    let servers: Map<String, Value> = servers.iter().filter_map(server).collect();
    if !servers.is_empty() {
        // A route has put its provider there.
        if !params["config"].is_object() {
            params["config"] = json!({});
        }
        params["config"]["mcp_servers"] = Value::Object(servers);
    }
}

fn transport(transport: &McpTransport) -> Option<Value> {
    match transport {
        McpTransport::Stdio { command, args, env } => {
            Some(json!({"command": command, "args": args, "env": named(env)}))
        }
        McpTransport::Http { url, headers } => Some(json!({"url": url, "http_headers": named(headers)})),
        // It was refused.
        McpTransport::Sse { .. } => None,
    }
}

fn named(values: &[NamedValue]) -> Map<String, Value> {
    values.iter().map(|named| (named.name.clone(), Value::from(named.value.as_str()))).collect()
}

#[cfg(test)]
mod tests {
    use super::{add_to_thread, check};
    use serde_json::json;
    use turnstream_adapter::McpServer;

    #[test]
    fn servers_have_the_form_of_codex_and_others_are_refused() {
        let list = [
            json!({"name": "files", "command": "npx", "args": ["x"], "env": [{"name": "KEY", "value": "v"}]}),
            json!({"type": "http", "name": "web", "url": "http://127.0.0.1:1/mcp", "headers": [{"name": "A", "value": "b"}]}),
        ];
        let servers = McpServer::read_list(&list).unwrap();
        assert_eq!(check(&servers), Ok(()));
        let mut params = json!({"cwd": "/work"});
        add_to_thread(&mut params, &servers);
        let expected = json!({"cwd": "/work", "config": {"mcp_servers": {
            "files": {"command": "npx", "args": ["x"], "env": {"KEY": "v"}},
            "web": {"url": "http://127.0.0.1:1/mcp", "http_headers": {"A": "b"}},
        }}});
        assert_eq!(params, expected);
        for (bad, reason) in [
            (
                json!({"type": "sse", "name": "old", "url": "http://127.0.0.1:1/sse", "headers": []}),
                "\"sse\"",
            ),
            (json!({"name": "my files", "command": "npx", "args": [], "env": []}), "\"my files\""),
        ] {
            let refused = check(&McpServer::read_list(&[bad]).unwrap()).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
