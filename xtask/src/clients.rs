//! Libraries and programs of others that judge what the gateway serves, installed into `target/agents`.

use crate::cargo::{command, run, target};
use crate::npm::{Folder, Package};

/// The providers' own client libraries, with which tests read streams of the proxy. As all of these, they
/// are inside of the folder of the agents, which is all that a test is told.
const CLIENTS: Folder = Folder {
    name: "agents/clients",
    what_for: "the tests of the proxy",
    packages: &[
        Package { name: "openai", version: "6.30.1", command: None },
        Package { name: "@anthropic-ai/sdk", version: "0.137.0", command: None },
    ],
};

/// The versions of the AI SDK whose clients judge the chat API, each in a folder of its own.
const AI_SDK: [Folder; 5] = [
    ai_sdk("agents/ai-sdk/7.0.169", &[library("ai", "7.0.169"), library("zod", "4.6.7")]),
    ai_sdk("agents/ai-sdk/6.0.326", &[library("ai", "6.0.326"), library("zod", "4.6.7")]),
    ai_sdk("agents/ai-sdk/5.0.277", &[library("ai", "5.0.277"), library("zod", "4.6.7")]),
    ai_sdk("agents/ai-sdk/6.0.125", &[library("ai", "6.0.125"), library("zod", "4.6.7")]),
    ai_sdk("agents/ai-sdk/5.0.108", &[library("ai", "5.0.108"), library("zod", "4.6.7")]),
];

/// The clients of AG-UI, each in a folder of its own.
const AG_UI: [Folder; 4] = [
    ag_ui("agents/ag-ui/1.0.0", &[library("@ag-ui/client", "1.0.0"), library("@ag-ui/core", "1.0.0")]),
    ag_ui("agents/ag-ui/0.0.57", &[library("@ag-ui/client", "0.0.57"), library("@ag-ui/core", "0.0.57")]),
    ag_ui("agents/ag-ui/copilotkit", &[library("@copilotkit/core", "1.75.0")]),
    ag_ui("agents/ag-ui/tanstack", &[library("@tanstack/ai-client", "0.33.2")]),
];

const fn ag_ui(name: &'static str, packages: &'static [Package]) -> Folder {
    Folder { name, what_for: "the tests with clients of AG-UI", packages }
}

/// What the page in examples/ai-sdk-page is built with.
const AI_SDK_PAGE: Folder = ai_sdk(
    "agents/ai-sdk-page",
    &[
        library("ai", "7.0.169"),
        library("@ai-sdk/react", "4.0.167"),
        library("react", "19.3.1"),
        library("react-dom", "19.3.1"),
        library("vite", "8.3.8"),
    ],
);

/// What the page in examples/copilotkit-page is built with.
const COPILOTKIT_PAGE: Folder = ag_ui(
    "agents/copilotkit-page",
    &[
        library("@copilotkit/core", "1.75.0"),
        library("react", "19.3.1"),
        library("react-dom", "19.3.1"),
        library("vite", "8.3.8"),
    ],
);

const fn ai_sdk(name: &'static str, packages: &'static [Package]) -> Folder {
    Folder { name, what_for: "the tests with the AI SDK", packages }
}

const fn library(name: &'static str, version: &'static str) -> Package {
    Package { name, version, command: None }
}
/// Clients of the Agent Client Protocol, which judge `turnstream acp`.
const ACP_CLIENTS: Folder = Folder {
    name: "agents/acp-clients",
    what_for: "the tests with clients of the Agent Client Protocol",
    packages: &[
        Package { name: "acpx", version: "0.19.1", command: Some("acpx") },
        Package { name: "@agentclientprotocol/sdk", version: "2.4.0", command: None },
    ],
};

/// The protocol's Python SDK, for a full run.
const PYTHON_SDK: &str = "agent-client-protocol==0.12.1";

/// Installs them unless they are installed.
pub(crate) fn install() -> Result<(), String> {
    let single = [&CLIENTS, &AI_SDK_PAGE, &COPILOTKIT_PAGE, &ACP_CLIENTS];
    single.into_iter().chain(&AI_SDK).chain(&AG_UI).try_for_each(|folder| folder.install().map(drop))
}

/// Installs the Python SDK of the Agent Client Protocol into `target/agents/acp-python`, unless it is there.
pub(crate) fn install_python_sdk() -> Result<(), String> {
    let dir = target().join("agents/acp-python");
    let stamp = dir.join("installed.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|have| have == PYTHON_SDK) {
        return Ok(());
    }
    println!("installing into target/agents/acp-python: {PYTHON_SDK}");
    let mut install = command("python3", &["-m", "pip", "install", "--quiet", "--upgrade", "--target"]);
    install.arg(&dir).arg(PYTHON_SDK);
    run(install)?;
    std::fs::write(&stamp, PYTHON_SDK).map_err(|error| format!("cannot write {}: {error}", stamp.display()))
}
