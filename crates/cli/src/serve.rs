//! `turnstream serve`: the gateway, until it is told to stop.

use crate::choose::Candidate;
use crate::config::{AgentTable, Config, ConfigError, Place};
use crate::escape::{self, safe};
use crate::host::{self, HostError};
use crate::running::Note;
use crate::signals::Signals;
use crate::{config, descriptors, hints, out};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::watch;
use turnstream_agents::{Description, ProcessGroups};
use turnstream_gateway::{Gateway, OpenError, Round};

/// Within this everything has ended; then the process ends whatever is left.
const DEADLINE: Duration = Duration::from_secs(5);

/// Serve the gateway until SIGINT or SIGTERM. Flags are stronger than TURNSTREAM_… variables, which are stronger than
/// the configuration.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Where to listen [default: 127.0.0.1:4180]; an address that others can reach needs a token
    #[arg(long, value_name = "ADDRESS", env = "TURNSTREAM_LISTEN", value_parser = config::address)]
    listen: Option<SocketAddr>,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("cannot take over the signals: {0}")]
    Signals(io::Error),
    #[error("cannot write gateway.json into {}: {error}", data.display())]
    Note { data: PathBuf, error: io::Error },
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, ServeError> {
    let config = Config::resolve(&args.place, args.listen, None)?;
    let mut signals = Signals::take().map_err(ServeError::Signals)?;
    let descriptors = descriptors::raise();
    let (gateway, server) =
        host::open(&config, config.listen).await.map_err(|error| in_use(error, &config))?;
    let address = server.address();
    let written = Note::write(&config.data, address);
    let note = written.map_err(|error| ServeError::Note { data: config.data.clone(), error })?;
    if let Some(few) = descriptors.filter(|limit| *limit < 4_096) {
        log(&format!(
            "only {few} files may be open at once, so about as many clients; raise it with ulimit -n"
        ));
    }
    tell_of_process_groups(&config);
    // Servers are asked whether they answer, and nobody has to wait for that.
    tokio::spawn(welcome(config, args.place, address, gateway.clone()));
    let recovering = gateway.recovering();
    if recovering > 0 {
        log(&format!("{recovering} sessions are settling what the last run left open"));
    }
    tokio::spawn(tell_of_retention(gateway.watch_retention()));
    let left = server
        .run(async {
            let signal = signals.next().await;
            log(&format!("{signal}: shutting down"));
            end_by_force();
        })
        .await;
    for problem in left {
        log(&problem);
    }
    drop(note);
    log("ended");
    Ok(ExitCode::SUCCESS)
}

/// Says once what ending an agent cannot promise on this machine.
fn tell_of_process_groups(config: &Config) {
    let starts_processes = |agent: &AgentTable| match agent {
        AgentTable::Scripted(_) => false,
        AgentTable::Opencode(table) => table.url.is_none(),
    };
    if !config.agents.values().any(starts_processes) {
        return;
    }
    if let Err(problem) = ProcessGroups::find() {
        log(&format!(
            "agents run without a control group of their own: {problem}; a tool's process that gives up its parent, its session \
             and its environment may outlive its agent"
        ));
    }
}

/// One line per round that removed something, or that could not.
async fn tell_of_retention(mut rounds: watch::Receiver<Round>) {
    while rounds.changed().await.is_ok() {
        let round = *rounds.borrow_and_update();
        let Round { trimmed, turns, events, bytes, deleted, failed } = round;
        let mut said = format!(
            "retention: trimmed {turns} turns of {trimmed} sessions ({events} events, {bytes} bytes), \
             deleted {deleted} sessions"
        );
        if failed > 0 {
            said += &format!("; {failed} sessions could not be looked at, and are in the next round");
        }
        log(&said);
    }
}

/// Whatever hangs, the process ends.
fn end_by_force() {
    std::thread::spawn(|| {
        std::thread::sleep(DEADLINE);
        log("not everything ended in time; what was accepted is on disk");
        std::process::exit(1);
    });
}

/// A directory that is in use is most often in use by a gateway that can be named.
fn in_use(error: HostError, config: &Config) -> ServeError {
    if let HostError::Open(OpenError::Log(turnstream_log::OpenError::InUse(_))) = &error
        && let Some(running) = crate::running::read(&config.data)
    {
        log(&format!("the gateway with process id {} serves it at http://{}", running.pid, running.address));
    }
    ServeError::Host(error)
}

/// The first screen: where it is, what it offers, what to try.
async fn welcome(config: Config, place: Place, address: SocketAddr, gateway: Gateway) {
    let (mut agents, mut candidates) = (Vec::new(), Vec::new());
    for (name, description) in gateway.probe_agents().await {
        let state = match (&description.problem, description.scripted) {
            (Some(problem), _) => format!(" (cannot be used: {problem})"),
            (None, true) => " (scripted: plays a script, nothing behind it thinks)".to_owned(),
            (None, false) => String::new(),
        };
        agents.push(format!("{name}{state}"));
        let Description { problem, scripted, .. } = description;
        candidates.push(Candidate { name, scripted, problem });
    }
    let hints = hints::of(&config, &place, address, candidates);
    let with = if hints::need_token(&place) { " (with the same TURNSTREAM_TOKEN)" } else { "" };
    let roots: Vec<String> = config.settings.roots.iter().map(|root| root.display().to_string()).collect();
    let file = config.file.as_ref().map_or("none".to_owned(), |file| file.display().to_string());
    let token = if config.token.is_some() { " (a token is needed)" } else { "" };
    let screen = format!(
        "turnstream {version}\n\n  \
         address  http://{address}{token}\n  \
         data     {data}\n  \
         config   {file}\n  \
         roots    {roots}\n  \
         agents   {agents}\n\n\
         Try it from another terminal{with}:\n\n  \
         {hints}\n\n\
         Ctrl-C ends it; whatever was accepted is kept.\n",
        version = env!("CARGO_PKG_VERSION"),
        data = config.data.display(),
        roots = roots.join(", "),
        agents = agents.join(", "),
        hints = hints.join("\n  "),
    );
    // Nobody has to read it.
    let _ = out::print(&escape::text(&screen));
}

/// One line per notable thing.
fn log(line: &str) {
    out::note(safe!["turnstream: ", escape::text(line)]);
}
