//! The MCP servers of one session, in ACP's vocabulary. They may hold secrets, so they are never logged.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;

/// Most MCP servers of one session.
pub const MOST_MCP_SERVERS: usize = 32;
/// Most bytes of all MCP servers of one session, as JSON.
pub const MOST_MCP_BYTES: usize = 64 << 10;
/// Most characters of a server's name.
const LONGEST_NAME: usize = 64;

/// An MCP server that an agent uses in one session.
#[derive(Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name, unique in the session. It is in the log.
    pub name: String,
    /// How the agent reaches it.
    pub transport: McpTransport,
}

/// How an agent reaches an MCP server.
#[derive(Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A command that the agent starts.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment variables.
        env: Vec<NamedValue>,
    },
    /// An address that answers HTTP.
    Http {
        /// The address.
        url: String,
        /// Headers of every request.
        headers: Vec<NamedValue>,
    },
    /// An address that sends server-sent events.
    Sse {
        /// The address.
        url: String,
        /// Headers of every request.
        headers: Vec<NamedValue>,
    },
}

/// An environment variable or a header. The value may be a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedValue {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// An MCP server that a session cannot have. It names the member and never shows a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{member}: {problem}")]
pub struct BadMcp {
    /// The member of the request: `mcp[0].command`.
    pub member: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Why an agent does not take a session's MCP servers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RefusedMcp(pub String);

// === impl McpServer ===

impl McpServer {
    /// Reads the list `mcp` of a request.
    pub fn read_list(list: &[Value]) -> Result<Vec<Self>, BadMcp> {
        if list.len() > MOST_MCP_SERVERS {
            let problem =
                format!("it has {} servers, and at most {MOST_MCP_SERVERS} are allowed", list.len());
            return Err(BadMcp { member: "mcp".to_owned(), problem });
        }
        let bytes: usize = list.iter().map(|server| server.to_string().len()).sum();
        if bytes > MOST_MCP_BYTES {
            let problem = format!("it has {bytes} bytes, and at most {MOST_MCP_BYTES} are allowed");
            return Err(BadMcp { member: "mcp".to_owned(), problem });
        }
        let mut servers: Vec<Self> = Vec::new();
        for (index, server) in list.iter().enumerate() {
            let server = Self::read(server, &format!("mcp[{index}]"))?;
            if servers.iter().any(|other| other.name == server.name) {
                let problem = format!("the name {:?} is used twice; give every server its own", server.name);
                return Err(BadMcp { member: format!("mcp[{index}].name"), problem });
            }
            servers.push(server);
        }
        Ok(servers)
    }

    fn read(server: &Value, at: &str) -> Result<Self, BadMcp> {
        let Value::Object(members) = server else {
            return Err(BadMcp { member: at.to_owned(), problem: "it must be an object".to_owned() });
        };
        let members = Members { members, at };
        let name = members.text("name")?;
        check_name(&name).map_err(|problem| members.bad("name", problem))?;
        let transport = match members.members.get("type").map(|kind| kind.as_str()) {
            // ACP leaves the type of this one out.
            None | Some(Some("stdio")) => {
                members.only(&["type", "name", "command", "args", "env"])?;
                McpTransport::Stdio {
                    command: members.text("command")?,
                    args: members.texts("args")?,
                    env: members.named("env")?,
                }
            }
            Some(Some("http")) => {
                members.only(&["type", "name", "url", "headers"])?;
                McpTransport::Http { url: members.url()?, headers: members.named("headers")? }
            }
            Some(Some("sse")) => {
                members.only(&["type", "name", "url", "headers"])?;
                McpTransport::Sse { url: members.url()?, headers: members.named("headers")? }
            }
            Some(_) => return Err(members.bad("type", "it must be \"stdio\", \"http\" or \"sse\"")),
        };
        Ok(Self { name, transport })
    }

    /// The server as JSON, in the form that [`McpServer::read_list`] reads.
    pub fn to_json(&self) -> Value {
        let Self { name, transport } = self;
        match transport {
            McpTransport::Stdio { command, args, env } => {
                json!({"type": "stdio", "name": name, "command": command, "args": args, "env": env})
            }
            McpTransport::Http { url, headers } => {
                json!({"type": "http", "name": name, "url": url, "headers": headers})
            }
            McpTransport::Sse { url, headers } => {
                json!({"type": "sse", "name": name, "url": url, "headers": headers})
            }
        }
    }
}

/// Shows the name and the kind alone: everything else may hold a secret.
impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.transport {
            McpTransport::Stdio { .. } => "stdio",
            McpTransport::Http { .. } => "http",
            McpTransport::Sse { .. } => "sse",
        };
        write!(f, "McpServer({:?}, {kind})", self.name)
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | ' ');
    if name.trim().is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
        return Err("a name has 1 to 64 ASCII letters, digits, spaces, -, _ and .");
    }
    Ok(())
}

/// The members of one server.
struct Members<'a> {
    members: &'a Map<String, Value>,
    /// The place of the server in the request.
    at: &'a str,
}

impl Members<'_> {
    fn bad(&self, member: &str, problem: impl Into<String>) -> BadMcp {
        BadMcp { member: format!("{}.{member}", self.at), problem: problem.into() }
    }

    /// Refuses members that the server does not have.
    fn only(&self, known: &[&str]) -> Result<(), BadMcp> {
        match self.members.keys().find(|member| !known.contains(&member.as_str())) {
            Some(other) => Err(BadMcp {
                member: self.at.to_owned(),
                problem: format!("it has an unknown member {other:?}; it may have {}", known.join(", ")),
            }),
            None => Ok(()),
        }
    }

    fn text(&self, member: &str) -> Result<String, BadMcp> {
        match self.members.get(member) {
            Some(Value::String(text)) if !text.is_empty() && !text.contains('\0') => Ok(text.clone()),
            Some(_) => Err(self.bad(member, "it must be a string that is not empty")),
            None => Err(self.bad(member, "it is missing")),
        }
    }

    fn url(&self) -> Result<String, BadMcp> {
        let url = self.text("url")?;
        if url.starts_with("http://") || url.starts_with("https://") {
            Ok(url)
        } else {
            Err(self.bad("url", "it must begin with http:// or https://"))
        }
    }

    fn texts(&self, member: &str) -> Result<Vec<String>, BadMcp> {
        let Some(list) = self.members.get(member) else { return Ok(Vec::new()) };
        let texts = list.as_array().and_then(|list| {
            list.iter()
                .map(|text| text.as_str().filter(|text| !text.contains('\0')).map(str::to_owned))
                .collect()
        });
        texts.ok_or_else(|| self.bad(member, "it must be a list of strings"))
    }

    fn named(&self, member: &str) -> Result<Vec<NamedValue>, BadMcp> {
        let Some(list) = self.members.get(member) else { return Ok(Vec::new()) };
        let is_whole = |named: &NamedValue| {
            !named.name.is_empty()
                && !named.name.contains(['=', '\0', '\n', '\r'])
                && !named.value.contains('\0')
        };
        // The error of serde quotes the value, which may be a secret.
        let named = list.as_array().and_then(|list| {
            list.iter().map(|named| NamedValue::deserialize(named).ok().filter(is_whole)).collect()
        });
        named.ok_or_else(|| {
            self.bad(
                member,
                "it must be a list of {\"name\": …, \"value\": …}, with a name that is not empty",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(list: Value) -> String {
        McpServer::read_list(list.as_array().unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn servers_of_all_three_kinds_are_read_and_written_in_the_same_form() {
        let list = json!([
            {"name": "files", "command": "/bin/mcp-files", "args": ["--root", "/"], "env": [{"name": "A", "value": "1"}]},
            {"type": "http", "name": "docs", "url": "https://127.0.0.1/mcp", "headers": [{"name": "X", "value": "y"}]},
            {"type": "sse", "name": "news", "url": "http://127.0.0.1/sse", "headers": []},
        ]);
        let servers = McpServer::read_list(list.as_array().unwrap()).unwrap();
        let written: Vec<Value> = servers.iter().map(McpServer::to_json).collect();
        assert_eq!(McpServer::read_list(&written).unwrap(), servers);
        assert_eq!(written[1..], list.as_array().unwrap()[1..]);
        assert_eq!(written[0]["type"], "stdio");
        let shown = format!("{servers:?}");
        assert_eq!(shown, r#"[McpServer("files", stdio), McpServer("docs", http), McpServer("news", sse)]"#);
    }

    #[test]
    fn a_server_that_cannot_be_used_is_refused_by_its_member_without_a_value() {
        let stdio = |name: &str| json!({"name": name, "command": "c"});
        assert_eq!(
            refused(json!([stdio("a"), stdio("a")])),
            "mcp[1].name: the name \"a\" is used twice; give every server its own"
        );
        assert_eq!(refused(json!([7])), "mcp[0]: it must be an object");
        assert_eq!(refused(json!([{"name": "a"}])), "mcp[0].command: it is missing");
        assert_eq!(
            refused(json!([{"name": "a/b", "command": "c"}])),
            "mcp[0].name: a name has 1 to 64 ASCII letters, digits, spaces, -, _ and ."
        );
        assert_eq!(
            refused(json!([{"name": "a", "type": "pipe"}])),
            "mcp[0].type: it must be \"stdio\", \"http\" or \"sse\""
        );
        assert_eq!(
            refused(json!([{"name": "a", "type": "http", "url": "ftp://secret"}])),
            "mcp[0].url: it must begin with http:// or https://"
        );
        assert_eq!(
            refused(json!([{"name": "a", "command": "c", "env": {"KEY": "secret"}}])),
            "mcp[0].env: it must be a list of {\"name\": …, \"value\": …}, with a name that is not empty"
        );
        assert_eq!(
            refused(json!([{"name": "a", "command": "c", "url": "u"}])),
            "mcp[0]: it has an unknown member \"url\"; it may have type, name, command, args, env"
        );
        let many: Vec<Value> = (0..33).map(|number| stdio(&number.to_string())).collect();
        assert_eq!(refused(json!(many)), "mcp: it has 33 servers, and at most 32 are allowed");
        let long = json!([{"name": "a", "command": "c", "args": ["x".repeat(MOST_MCP_BYTES)]}]);
        assert!(refused(long).contains("at most 65536 are allowed"));
    }
}
