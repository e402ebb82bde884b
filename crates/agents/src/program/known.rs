//! The agents that turnstream knows by their command: tested versions, variables, logins and modes. The only
//! place for these facts; docs/agents.md is generated from it.

use super::login::{FileAt, LoginFacts};
use super::route::RoutedBy;
use turnstream_adapter::Login;

/// An agent that turnstream knows.
#[derive(Debug)]
pub struct KnownAgent {
    /// Its command on `PATH`.
    pub command: &'static str,
    /// Its kind, as in the configuration.
    pub kind: &'static str,
    /// Its name for a person.
    pub title: &'static str,
    /// Which adapter runs it.
    pub adapter: Adapter,
    /// The versions that were tested, oldest first.
    pub tested: &'static [&'static str],
    /// The command that installs it.
    pub install: Option<&'static str>,
    /// The variables of the gateway that it gets unless the configuration has a `pass_env`. A `*` at the end
    /// stands for any rest of the name.
    pub pass_env: &'static [&'static str],
    /// Variables that a `*` never passes: they are about another process than the one that is started.
    pub withheld: &'static [&'static str],
    /// How it is pointed at a route of the gateway. `Err`: it cannot be, and what to do instead.
    pub routed_by: Result<RoutedBy, &'static str>,
    /// How to tell whether it is logged in.
    pub login: Option<LoginFacts>,
    /// Models that a session can choose, if they are the same for everybody.
    pub models: &'static [&'static str],
    /// Modes that a session can choose.
    pub modes: &'static [&'static str],
}

/// The adapter of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adapter {
    /// `crates/agents/src/opencode`.
    Opencode,
    /// `crates/agents/src/claude`.
    Claude,
    /// `crates/agents/src/codex`.
    Codex,
    /// `crates/agents/src/acp`, with these arguments of the program.
    Acp(&'static [&'static str]),
    /// This version of turnstream has none.
    NotYet,
}

impl KnownAgent {
    /// Its name in the list of agents: its command, with the arguments that make it an ACP agent.
    pub fn name(&self) -> String {
        self.words().join("-")
    }

    /// The words of the command that starts it, as far as they are known.
    pub fn words(&self) -> Vec<&'static str> {
        let arguments = match self.adapter {
            Adapter::Acp(arguments) => arguments,
            Adapter::Opencode | Adapter::Claude | Adapter::Codex | Adapter::NotYet => &[],
        };
        std::iter::once(self.command).chain(arguments.iter().copied()).collect()
    }
}

/// The variables of opencode and of the providers it knows.
const OPENCODE_VARIABLES: &[&str] = &[
    "OPENCODE_*",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "ANTHROPIC_*",
    "OPENAI_*",
    "GEMINI_*",
    "GOOGLE_GENERATIVE_AI_*",
    "OPENROUTER_*",
    "GROQ_*",
    "MISTRAL_*",
    "DEEPSEEK_*",
    "XAI_*",
];

/// opencode.
pub static OPENCODE: KnownAgent = KnownAgent {
    command: "opencode",
    kind: "opencode",
    title: "opencode",
    adapter: Adapter::Opencode,
    tested: &["1.18.33"],
    install: Some("npm install -g opencode-ai"),
    pass_env: OPENCODE_VARIABLES,
    withheld: &["OPENCODE_SERVER_PASSWORD", "OPENCODE_SERVER_USERNAME"],
    routed_by: Ok(RoutedBy::OpencodeConfig),
    login: Some(LoginFacts {
        variables: &[
            "OPENCODE_API_KEY",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "OPENROUTER_API_KEY",
            "GROQ_API_KEY",
            "MISTRAL_API_KEY",
            "DEEPSEEK_API_KEY",
            "XAI_API_KEY",
        ],
        files: &[FileAt { variable: "XDG_DATA_HOME", home: ".local/share", file: "opencode/auth.json" }],
        unsure_variables: &[],
        unsure_files: &[],
        // It has models that need no login, and its own configuration may have keys.
        otherwise: Login::Unknown,
        command: "opencode auth login",
    }),
    models: &[],
    modes: &["build", "plan"],
};

/// Claude Code.
pub static CLAUDE: KnownAgent = KnownAgent {
    command: "claude",
    kind: "claude",
    title: "Claude Code",
    adapter: Adapter::Claude,
    tested: &["2.1.197", "2.1.325"],
    install: Some("npm install -g @anthropic-ai/claude-code"),
    pass_env: &["ANTHROPIC_*", "CLAUDE_*"],
    // Set by a Claude Code for the commands it runs, and so for a gateway that is started in it.
    // With the second one, a resumed process would repeat a lost turn by itself.
    withheld: &["CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_RESUME_INTERRUPTED_TURN", "CLAUDE_CODE_SSE_PORT"],
    routed_by: Ok(RoutedBy::AnthropicVariables),
    login: Some(LoginFacts {
        variables: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
        files: &[FileAt { variable: "CLAUDE_CONFIG_DIR", home: ".claude", file: ".credentials.json" }],
        unsure_variables: &[
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_FOUNDRY",
            "CLAUDE_CODE_USE_VERTEX",
        ],
        // Each of these may hold a key, or name a program that prints one.
        unsure_files: &[
            FileAt { variable: "CLAUDE_CONFIG_DIR", home: "", file: ".claude.json" },
            FileAt { variable: "CLAUDE_CONFIG_DIR", home: ".claude", file: "settings.json" },
            FileAt { variable: "", home: "/etc/claude-code", file: "managed-settings.json" },
        ],
        // On macOS the credentials are in the keychain.
        otherwise: if cfg!(target_os = "macos") { Login::Unknown } else { Login::LoggedOut },
        command: "claude auth login",
    }),
    models: &["default", "opus", "sonnet", "haiku"],
    modes: &["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"],
};

/// Codex.
pub static CODEX: KnownAgent = KnownAgent {
    command: "codex",
    kind: "codex",
    title: "Codex",
    adapter: Adapter::Codex,
    tested: &["0.166.0"],
    install: Some("npm install -g @openai/codex"),
    pass_env: &["OPENAI_*", "CODEX_*"],
    // Set by a Codex for the commands it runs, and so for a gateway that is started in it.
    withheld: &["CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID"],
    routed_by: Ok(RoutedBy::CodexThread),
    login: Some(LoginFacts {
        variables: &["OPENAI_API_KEY", "CODEX_API_KEY"],
        files: &[FileAt { variable: "CODEX_HOME", home: ".codex", file: "auth.json" }],
        unsure_variables: &[],
        // It may name a provider with a key of its own.
        unsure_files: &[FileAt { variable: "CODEX_HOME", home: ".codex", file: "config.toml" }],
        otherwise: Login::LoggedOut,
        command: "codex login",
    }),
    models: &[],
    modes: &["read-only", "auto", "full-access", "plan"],
};

/// Any agent that speaks ACP, if no more is known of it.
pub static ACP: KnownAgent = KnownAgent { adapter: Adapter::Acp(&[]), ..acp("", "an ACP agent") };

/// The ACP adapter of Claude Code.
static CLAUDE_ACP: KnownAgent = KnownAgent {
    adapter: Adapter::Acp(&[]),
    tested: &["0.99.1"],
    install: Some("npm install -g @agentclientprotocol/claude-agent-acp"),
    pass_env: &["ANTHROPIC_*", "CLAUDE_*"],
    withheld: &["CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_RESUME_INTERRUPTED_TURN", "CLAUDE_CODE_SSE_PORT"],
    routed_by: Ok(RoutedBy::AnthropicVariables),
    ..acp("claude-agent-acp", "the ACP adapter of Claude Code")
};

/// The ACP adapter of Codex.
static CODEX_ACP: KnownAgent = KnownAgent {
    adapter: Adapter::Acp(&[]),
    tested: &["2.6.0"],
    install: Some("npm install -g @agentclientprotocol/codex-acp"),
    pass_env: &["OPENAI_*", "CODEX_*"],
    routed_by: Err(
        "remove `route`, and add a model provider to Codex's config.toml, as docs/proxy.md shows for Codex",
    ),
    ..acp("codex-acp", "the ACP adapter of Codex")
};

/// opencode as an ACP agent. The kind `opencode` knows more of it, and survives its gateway.
static OPENCODE_ACP: KnownAgent = KnownAgent {
    adapter: Adapter::Acp(&["acp"]),
    tested: &["1.18.33"],
    install: Some("npm install -g opencode-ai"),
    pass_env: OPENCODE_VARIABLES,
    withheld: &["OPENCODE_SERVER_PASSWORD", "OPENCODE_SERVER_USERNAME"],
    routed_by: Ok(RoutedBy::OpencodeConfig),
    ..acp("opencode", "opencode as an ACP agent")
};

/// All of them, in the order of the documentation.
pub static KNOWN: &[&KnownAgent] = &[
    &OPENCODE,
    &CLAUDE,
    &CODEX,
    &acp("gemini", "Gemini CLI"),
    &acp("goose", "goose"),
    &CLAUDE_ACP,
    &CODEX_ACP,
    &OPENCODE_ACP,
    &acp("qwen", "Qwen Code"),
    &acp("kimi", "Kimi CLI"),
    &acp("copilot", "GitHub Copilot CLI"),
    &acp("cursor-agent", "Cursor CLI"),
    &acp("auggie", "Auggie"),
    &acp("vibe-acp", "Mistral Vibe"),
];

/// An agent that speaks the Agent Client Protocol.
const fn acp(command: &'static str, title: &'static str) -> KnownAgent {
    KnownAgent {
        command,
        kind: "acp",
        title,
        adapter: Adapter::NotYet,
        tested: &[],
        install: None,
        pass_env: &[],
        withheld: &[],
        routed_by: Err("remove `route`, and set its variables with `env`"),
        login: None,
        models: &[],
        modes: &[],
    }
}

#[cfg(test)]
mod tests {
    use super::KNOWN;
    use std::collections::BTreeSet;

    #[test]
    fn every_version_that_the_real_agent_tests_install_is_listed_as_tested() {
        let installed = include_str!("../../../../xtask/src/agents.rs");
        let versions = installed.split("version: \"").skip(1).filter_map(|rest| rest.split('"').next());
        let tested: BTreeSet<&str> = KNOWN.iter().flat_map(|known| known.tested).copied().collect();
        let untested: Vec<&str> = versions.filter(|version| !tested.contains(version)).collect();
        assert_eq!(untested, [""; 0]);
    }

    #[test]
    fn no_agent_gets_the_word_that_lets_root_skip_permissions() {
        let passed = KNOWN.iter().flat_map(|known| known.pass_env);
        let fits = |pattern: &&&str| super::super::environment::fits(pattern, "IS_SANDBOX");
        assert_eq!(passed.filter(fits).count(), 0);
    }

    #[test]
    fn names_are_unique_and_fit() {
        let names: BTreeSet<String> = KNOWN.iter().map(|known| known.name()).collect();
        assert_eq!(names.len(), KNOWN.len());
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        assert!(names.iter().all(|name| name.bytes().all(fits)));
    }
}
