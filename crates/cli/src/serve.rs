//! `turnstream serve`: runs the gateway until a signal stops it.

use crate::agent_choice::Candidate;
use crate::config::{AgentTable, Config, ConfigError, Place};
use crate::diagnostics::{Diagnostics, DiagnosticsError};
use crate::escape;
use crate::gateway_file::{GatewayFile, TokenPlace};
use crate::host::{self, HostError};
use crate::signals::Signals;
use crate::{config, end_with, hints, open_files, out};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};
use turnstream_agents::{ControlGroups, Description};
use turnstream_gateway::{Gateway, OpenError, Round};
use turnstream_server::{Auth, NoRandomness};

/// How long a shutdown may take. After that the process ends, whatever still runs.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(5);

/// How long before that deadline the collector of spans is given up. A gateway closes within 4.8 seconds
/// (`closing.rs` of the gateway), so a slow one leaves the collector the rest.
const EXIT_MARGIN: Duration = Duration::from_millis(100);

/// Below this limit of open files, a warning is printed at start.
const FEW_OPEN_FILES: u64 = 4_096;

/// Run the gateway until Ctrl-C (SIGINT) or SIGTERM. This is the default command
///
/// Flags win over TURNSTREAM_… variables, and these over the configuration file.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// The address to listen on [default: 127.0.0.1:4180]
    #[arg(long, value_name = "ADDRESS", env = "TURNSTREAM_LISTEN", value_parser = config::address)]
    listen: Option<SocketAddr>,
    /// End with this parent process, also if it is killed
    #[arg(long, value_name = "PID", hide = true)]
    end_with: Option<u32>,
}

/// Why the gateway cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Diagnostics(#[from] DiagnosticsError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("{source}; the gateway with process id {pid} serves it at http://{address}")]
    InUse { pid: u32, address: SocketAddr, source: HostError },
    #[error("--end-with: {0}")]
    Parent(#[source] io::Error),
    #[error("cannot handle signals: {0}")]
    Signals(#[source] io::Error),
    #[error("cannot write gateway.json into {}: {error}", data.display())]
    GatewayFile {
        data: PathBuf,
        #[source]
        error: io::Error,
    },
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, ServeError> {
    if let Some(parent) = args.end_with {
        end_with::parent(parent).map_err(ServeError::Parent)?;
    }
    let config = Config::resolve(&args.place, args.listen, None)?;
    let diagnostics = Diagnostics::of_server(&config)?;
    let mut signals = Signals::take().map_err(ServeError::Signals)?;
    let open_files_limit = open_files::raise_limit();
    let (gateway, server) =
        host::open(&config, config.listen).await.map_err(|error| in_use(error, &config))?;
    let address = server.address();
    let written = GatewayFile::write(&config.data, address, TokenPlace::of(&config.auth));
    let gateway_file =
        written.map_err(|error| ServeError::GatewayFile { data: config.data.clone(), error })?;
    info!(%address, "listening");
    warn_of_limits(&config, open_files_limit);
    tokio::spawn(log_retention(gateway.watch_retention()));
    // The screen waits for agents that are asked whether they answer; the gateway does not.
    let (metrics, opencode) = (server.metrics_address(), server.opencode_address());
    let addresses = Addresses { gateway: address, metrics, opencode };
    let login = server.login_link();
    tokio::spawn(print_first_screen(config, args.place, addresses, login, gateway.clone()));
    let mut exit_at = None;
    let problems = server
        .run(async {
            let signal = signals.next().await;
            info!(signal, "shutting down");
            exit_at = Some(Instant::now() + SHUTDOWN_DEADLINE);
            exit_after_deadline();
        })
        .await;
    for problem in problems {
        warn!(error = problem, "not stopped in good order");
    }
    drop(gateway_file);
    match exit_at {
        Some(exit_at) => diagnostics.end_by(exit_at - EXIT_MARGIN).await,
        None => diagnostics.end().await,
    }
    end_process(gateway)
}

/// Ends the process with everything in memory: all of it that matters is on disk, and no agent runs any more.
/// Returning would free it piece by piece, which takes seconds when it is gigabytes.
fn end_process(_in_memory: Gateway) -> ! {
    std::process::exit(0)
}

/// Says once what this machine does not allow.
fn warn_of_limits(config: &Config, open_files_limit: Option<u64>) {
    if let Some(limit) = open_files_limit.filter(|limit| *limit < FEW_OPEN_FILES) {
        warn!(limit, "few files may be open at once, and every client needs one; raise it with ulimit -n");
    }
    if config.agents.values().any(AgentTable::starts_processes)
        && let Err(problem) = ControlGroups::find()
    {
        warn!(
            error = %problem,
            "agents run without a control group of their own; a process that detaches itself may outlive its agent"
        );
    }
}

/// One line per round of retention that removed something. The gateway logs failures itself.
async fn log_retention(mut rounds: watch::Receiver<Round>) {
    while rounds.changed().await.is_ok() {
        let round = *rounds.borrow_and_update();
        let Round { trimmed, turns, events, bytes, deleted, failed } = round;
        info!(trimmed, turns, events, bytes, deleted, failed, "retention removed data");
    }
}

/// Ends the process if the shutdown hangs.
fn exit_after_deadline() {
    std::thread::spawn(|| {
        std::thread::sleep(SHUTDOWN_DEADLINE);
        error!(
            "the shutdown took too long; the process ends now, and accepted prompts and events are on disk"
        );
        std::process::exit(1);
    });
}

/// A data directory that is in use: names the gateway that uses it, if it is known.
fn in_use(error: HostError, config: &Config) -> ServeError {
    if let HostError::Open(OpenError::Log(turnstream_log::OpenError::InUse(_))) = &error
        && let Some(running) = crate::gateway_file::read(&config.data)
    {
        return ServeError::InUse { pid: running.pid, address: running.address, source: error };
    }
    ServeError::Host(error)
}

/// The addresses that a gateway listens on.
struct Addresses {
    gateway: SocketAddr,
    /// Only if metrics have an address of their own.
    metrics: Option<SocketAddr>,
    /// Only if opencode's API has an address of its own.
    opencode: Option<SocketAddr>,
}

/// The first screen: the address, the agents, and commands to try.
async fn print_first_screen(
    config: Config,
    place: Place,
    addresses: Addresses,
    login: Result<String, NoRandomness>,
    gateway: Gateway,
) {
    let probed = gateway.probe_agents().await;
    let agents: Vec<String> = probed.iter().map(|(name, agent)| agent_line(name, agent)).collect();
    let candidate = |(name, Description { problem, scripted, .. })| Candidate { name, scripted, problem };
    let candidates = probed.into_iter().map(candidate).collect();
    let address = addresses.gateway;
    let hints = hints::of(&config, &place, address, candidates);
    let with = if hints::need_token(&place) { " (with the same TURNSTREAM_TOKEN)" } else { "" };
    let roots: Vec<String> = config.settings.roots.iter().map(|root| root.display().to_string()).collect();
    let file = config.file.as_ref().map_or("none".to_owned(), |file| file.display().to_string());
    let access = match (&config.auth, login) {
        (Auth::None, _) => "everybody on this machine: no token is needed (auth = \"none\")".to_owned(),
        (Auth::Token(_) | Auth::File(_), Ok(link)) => {
            format!("with a token\n  browser  {link} (one sign-in, within 10 minutes)")
        }
        (Auth::Token(_) | Auth::File(_), Err(error)) => {
            format!("with a token; no browser can sign in: {error}")
        }
    };
    let own = format!("http://{address}");
    // A proxy needs to know the gateway's own address.
    let url = config.public_url.as_ref().map_or(own.clone(), |public| format!("{public} (here {own})"));
    let metrics = addresses.metrics.map_or_else(String::new, |address| {
        format!("\n  metrics  http://{address}/metrics (needs no token)")
    });
    let opencode = addresses
        .opencode
        .map_or_else(String::new, |address| format!("\n  opencode http://{address} (for opencode attach)"));
    let screen = format!(
        "turnstream {version}\n\n  \
         address  {url}\n  \
         access   {access}{metrics}{opencode}\n  \
         data     {data}\n  \
         config   {file}\n  \
         roots    {roots}\n  \
         agents   {agents}\n\n\
         Try it from another terminal{with}:\n\n  \
         {hints}\n\n\
         Press Ctrl-C to stop. Sessions are kept, and open turns are settled at the next start.\n",
        version = env!("CARGO_PKG_VERSION"),
        data = config.data.display(),
        roots = roots.join(", "),
        agents = if agents.is_empty() { "none".to_owned() } else { agents.join("\n           ") },
        hints = hints.join("\n  "),
    );
    if let Err(error) = out::print(&escape::text(&screen)) {
        debug!(%error, "nobody reads the first screen");
    }
}

/// One agent on the first screen: whether it can be used, or why not.
fn agent_line(name: &str, agent: &Description) -> String {
    let version = agent.version.as_ref().map_or_else(String::new, |version| format!(" {version}"));
    let found = match (agent.discovered, agent.kind) {
        (false, _) => "",
        // It has no program.
        (true, "builtin") => ", offered because [llm.routes] has an entry",
        (true, _) => ", found on PATH",
    };
    let state = match (&agent.problem, agent.scripted, &agent.notice) {
        (Some(problem), _, _) => format!(" (cannot be used: {problem})"),
        (None, true, _) => " (scripted: a demo that plays a script, without a model)".to_owned(),
        (None, false, Some(notice)) => format!(" ({notice})"),
        (None, false, None) => String::new(),
    };
    format!("{name}{version}{found}{state}")
}
