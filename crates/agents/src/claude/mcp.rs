//! The MCP servers of a session in the form that Claude Code reads from a file.

use serde_json::{Map, Value, json};
use turnstream_adapter::{McpServer, McpTransport, NamedValue};

/// The contents of the file.
pub(super) fn config(servers: &[McpServer]) -> Value {
    let servers: Map<String, Value> =
        servers.iter().map(|server| (server.name.clone(), transport(&server.transport))).collect();
    json!({"mcpServers": servers})
}

fn transport(transport: &McpTransport) -> Value {
    match transport {
        McpTransport::Stdio { command, args, env } => {
            json!({"type": "stdio", "command": command, "args": args, "env": named(env)})
        }
        McpTransport::Http { url, headers } => json!({"type": "http", "url": url, "headers": named(headers)}),
        McpTransport::Sse { url, headers } => json!({"type": "sse", "url": url, "headers": named(headers)}),
    }
}

fn named(values: &[NamedValue]) -> Map<String, Value> {
    values.iter().map(|named| (named.name.clone(), Value::from(named.value.as_str()))).collect()
}

#[cfg(test)]
mod tests {
    use super::config;
    use serde_json::json;
    use turnstream_adapter::McpServer;

    #[test]
    fn every_transport_has_the_form_of_claude_code() {
        let list = [
            json!({"name": "files", "command": "npx", "args": ["-y", "x"], "env": [{"name": "KEY", "value": "v"}]}),
            json!({"type": "http", "name": "web", "url": "http://127.0.0.1:1/mcp", "headers": [{"name": "A", "value": "b"}]}),
            json!({"type": "sse", "name": "old", "url": "http://127.0.0.1:1/sse", "headers": []}),
        ];
        let servers = McpServer::read_list(&list).unwrap();
        let expected = json!({"mcpServers": {
            "files": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"KEY": "v"}},
            "web": {"type": "http", "url": "http://127.0.0.1:1/mcp", "headers": {"A": "b"}},
            "old": {"type": "sse", "url": "http://127.0.0.1:1/sse", "headers": {}},
        }});
        assert_eq!(config(&servers), expected);
    }
}
