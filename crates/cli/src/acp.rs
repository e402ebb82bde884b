//! `turnstream acp`: an Agent Client Protocol agent over standard input and output, for editors.

use crate::agent_choice;
use crate::client::{FindError, Reach, SharedGateway};
use crate::config::parse_duration;
use crate::escape;
use crate::exit::Exit;
use crate::out;
use crate::signals::Signals;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use turnstream_acp_agent::{DefaultAgent, McpServers, Options};

const EXAMPLES: &str = "\
Examples:
  turnstream acp                      the default agent, for the settings of an editor
  turnstream acp --agent claude       new sessions are with this agent
  acpx --agent 'turnstream acp' exec 'Explain this repository'";

/// Serve the sessions of a gateway to an editor, as an Agent Client Protocol agent
///
/// Messages are read from standard input and written to standard output, one JSON object per line. Everything
/// else is on standard error. The command ends when the editor closes standard input; turns that run on a
/// gateway go on. Without a running gateway the command hosts one, which other commands can use too.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The agent of new sessions [default: default_agent of the configuration, else the only usable agent]
    #[arg(long)]
    agent: Option<String>,
    /// What to do when the agent asks for permission in a new session
    #[arg(long, value_enum, default_value = "ask")]
    permissions: Permissions,
    /// Leave out the MCP servers that the editor names, for agents that take none from a session
    #[arg(long)]
    without_mcp: bool,
    /// How long a prompt waits for a gateway that does not answer, before it is given up
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10m")]
    patience: Duration,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Permissions {
    /// Ask the person at the editor, and every other client of the session
    Ask,
    /// Allow everything
    Allow,
    /// Refuse everything
    Deny,
}

/// Why the editor cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AcpError {
    #[error(transparent)]
    Find(#[from] FindError),
    #[error("cannot handle signals: {0}")]
    Signals(#[source] io::Error),
    #[error("cannot speak with the editor: {0}")]
    Editor(#[from] io::Error),
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, AcpError> {
    let mut signals = Signals::take().map_err(AcpError::Signals)?;
    let input = tokio::fs::File::from_std(std::fs::File::from(io::stdin().as_fd().try_clone_to_owned()?));
    #[allow(clippy::disallowed_methods, reason = "messages for a program, which JSON escapes")]
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let output = tokio::fs::File::from_std(std::fs::File::from(output));
    // An editor works in any directory of its user, as this process can.
    let opening = SharedGateway::open(&args.reach, PathBuf::from("/"));
    let mut gateway = tokio::select! {
        biased;
        () = signals.interrupted() => return Ok(Exit::Cancelled.into()),
        gateway = opening => gateway?,
    };
    if let Some(hosted) = gateway.hosted.take() {
        out::note(escape::text(&hosted));
    }
    let agent = match args.agent {
        Some(agent) => DefaultAgent::Named(agent),
        None => {
            DefaultAgent::Chosen(|agents| agent_choice::from_list(agents).map_err(|error| error.to_string()))
        }
    };
    let options = Options {
        agent,
        permissions: match args.permissions {
            Permissions::Ask => "ask",
            Permissions::Allow => "allow",
            Permissions::Deny => "deny",
        },
        mcp: if args.without_mcp { McpServers::LeaveOut } else { McpServers::PassOn },
        patience: args.patience,
        version: env!("CARGO_PKG_VERSION"),
    };
    let served = tokio::select! {
        served = turnstream_acp_agent::serve(gateway.client.plain().clone(), options, input, output) => served,
        _ = signals.next() => Ok(()),
    };
    gateway.end().await;
    served?;
    Ok(ExitCode::SUCCESS)
}
