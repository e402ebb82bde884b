//! The metrics page for Prometheus. All values are read from the gateway when the page is requested: there
//! is no registry, and nothing is counted here. `docs/metrics.md` describes each metric and what to do
//! about it.

mod exposition;

use crate::app::App;
use crate::limits::Limit;
use crate::stream::StreamKind;
use exposition::{Family, Kind, Page};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use turnstream_adapter::{Counts, ProcessUsage};
use turnstream_gateway::{EventCounts, LiveAgentCounts, RefusingLimit as _, Stage};
use turnstream_log::{Health, Removed};
use turnstream_model::event::NoticeCode;
use turnstream_proxy::{Figures, OUTCOMES};

/// The whole page. Reads files: not for an async task.
pub(crate) fn page(app: &App) -> String {
    let mut page = Page::default();
    process(&mut page, app);
    limits(&mut page, app);
    log(&mut page, app);
    removed(&mut page, app);
    sessions(&mut page, app);
    let counts = app.gateway.event_counts();
    prompts_and_turns(&mut page, &counts);
    waits(&mut page, &counts);
    notices(&mut page, &counts);
    caps_reached(&mut page, &counts);
    unattended(&mut page, &counts);
    agents(&mut page, &app.gateway.counts());
    processes(&mut page, &app.gateway.process_usage());
    if let Some(proxy) = &app.options.proxy {
        llm_routes(&mut page, &proxy.figures());
    }
    page.into_text()
}

fn process(page: &mut Page, app: &App) {
    page.family("turnstream_build_info", Kind::Gauge, "The version of the gateway; always 1.")
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.family("turnstream_start_time_seconds", Kind::Gauge, "Start time of the gateway, in Unix seconds.")
        .seconds(unix(app.started));
    page.family(
        "turnstream_failed_logins_total",
        Kind::Counter,
        "Requests with a wrong token, ticket or login code.",
    )
    .sample(&[], app.access.failures());
    let mut streams = page.family("turnstream_streams_open", Kind::Gauge, "Open event streams, by kind.");
    for kind in StreamKind::ALL {
        streams.sample(&[("kind", kind.word())], app.streams.count(kind));
    }
}

fn limits(page: &mut Page, app: &App) {
    let connections = &app.in_use.connections;
    page.family("turnstream_connections_open", Kind::Gauge, "Open connections.")
        .sample(&[], connections.open() as u64);
    page.family("turnstream_connections_limit", Kind::Gauge, "Most connections that may be open.")
        .sample(&[], connections.most() as u64);
    let help = "Idle connections that were closed in favour of new ones.";
    page.family("turnstream_connections_evicted_total", Kind::Counter, help)
        .sample(&[], connections.evicted());
    let help = "Memory for bodies of requests that have not arrived completely.";
    page.family("turnstream_body_memory_bytes", Kind::Gauge, help)
        .sample(&[], app.in_use.bodies.used() as u64);
    let LiveAgentCounts { live, waiting } = app.gateway.live_agents();
    page.family("turnstream_agents_live", Kind::Gauge, "Links to agents that are up.")
        .sample(&[], live as u64);
    page.family("turnstream_agents_awaited", Kind::Gauge, "Sessions that wait until a link may be made.")
        .sample(&[], waiting as u64);
    let mut refused = page.family("turnstream_refused_total", Kind::Counter, "Refused requests, by limit.");
    for limit in Limit::ALL {
        refused.sample(&[("limit", limit.word())], app.in_use.refusals.total(limit));
    }
    for (limit, count) in app.gateway.refusals() {
        refused.sample(&[("limit", limit.word())], count);
    }
}

fn unix(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as f64 / 1_000.0
}

fn log(page: &mut Page, app: &App) {
    let now = match app.gateway.health() {
        Health::Sound => "sound",
        Health::Degraded { .. } => "degraded",
        Health::Failed { .. } => "failed",
    };
    let mut health = page.family("turnstream_log_health", Kind::Gauge, "1 for the current state of the log.");
    for state in ["sound", "degraded", "failed"] {
        health.sample(&[("state", state)], u64::from(state == now));
    }
    let figures = app.gateway.figures();
    page.family("turnstream_log_events_total", Kind::Counter, "Events that became durable.")
        .sample(&[], figures.events);
    let seconds = |duration: Duration| duration.as_micros() as f64 / 1e6;
    let within: Vec<(f64, u64)> =
        figures.commits.within.iter().map(|(bound, count)| (seconds(*bound), *count)).collect();
    page.family(
        "turnstream_log_commit_seconds",
        Kind::Histogram,
        "Time until a commit was durable, retries included.",
    )
    .histogram(&within, figures.commits.count, seconds(figures.commits.sum));
    page.family("turnstream_log_commit_failures_total", Kind::Counter, "Commits that the disk refused.")
        .sample(&[], figures.failed_commits);
    page.family(
        "turnstream_log_refused_writes_total",
        Kind::Counter,
        "Late partial writes that the store refused.",
    )
    .sample(&[], figures.refused_writes);
    page.family(
        "turnstream_log_bytes_under_way",
        Kind::Gauge,
        "About how many bytes are not in the database yet.",
    )
    .sample(&[], figures.under_way);
    page.family(
        "turnstream_log_bytes_limit",
        Kind::Gauge,
        "Most bytes that may be outside the database before appends wait.",
    )
    .sample(&[], figures.most_under_way);
}

fn removed(page: &mut Page, app: &App) {
    let Removed { sessions, turns, events, bytes, erasures } = app.gateway.removed();
    let families = [
        ("turnstream_removed_sessions_total", "Sessions that were deleted.", sessions),
        ("turnstream_removed_turns_total", "Turns that were trimmed.", turns),
        ("turnstream_removed_events_total", "Events that were trimmed.", events),
        ("turnstream_removed_bytes_total", "Bytes of events that were trimmed.", bytes),
        ("turnstream_erasures_total", "Times that all removed data was erased from all files.", erasures),
    ];
    for (name, help, value) in families {
        page.family(name, Kind::Counter, help).sample(&[], value);
    }
}

fn sessions(page: &mut Page, app: &App) {
    let stages = app.gateway.stages();
    let mut sessions = page.family("turnstream_sessions", Kind::Gauge, "Sessions, by status.");
    for (agent, stages) in &stages {
        for stage in Stage::all() {
            let count = stages.get(&stage).copied().unwrap_or_default();
            sessions.sample(&[("agent", agent), ("status", stage.word())], count);
        }
    }
    let mut open = page.family("turnstream_turns_open", Kind::Gauge, "Open turns.");
    for (agent, stages) in &stages {
        let count = stages.iter().filter(|(stage, _)| stage.has_turn()).map(|(_, count)| count).sum();
        open.sample(&[("agent", agent)], count);
    }
    page.family("turnstream_sessions_awake", Kind::Gauge, "Sessions in memory.")
        .sample(&[], app.gateway.awake() as u64);
}

/// Writes one sample for each agent.
fn by_agent<T>(mut family: Family<'_>, agents: &BTreeMap<String, T>, number: fn(&T) -> u64) {
    for (agent, counted) in agents {
        family.sample(&[("agent", agent)], number(counted));
    }
}

fn prompts_and_turns(page: &mut Page, counts: &BTreeMap<String, EventCounts>) {
    let accepted = page.family("turnstream_prompts_accepted_total", Kind::Counter, "Accepted prompts.");
    by_agent(accepted, counts, |counts| counts.prompts_accepted);
    let help = "Prompts that were withdrawn before they were sent.";
    let withdrawn = page.family("turnstream_prompts_withdrawn_total", Kind::Counter, help);
    by_agent(withdrawn, counts, |counts| counts.prompts_withdrawn);
    let started = page.family("turnstream_turns_started_total", Kind::Counter, "Started turns.");
    by_agent(started, counts, |counts| counts.turns_started);
    let help = "Ended turns, by outcome and class of error; the class is empty without an error.";
    let mut ended = page.family("turnstream_turns_ended_total", Kind::Counter, help);
    for (agent, counts) in counts {
        for ((outcome, error), count) in &counts.turns_ended {
            let error = error.map_or("", |error| error.as_str());
            ended.sample(&[("agent", agent), ("outcome", outcome.as_str()), ("error", error)], *count);
        }
    }
}

fn waits(page: &mut Page, counts: &BTreeMap<String, EventCounts>) {
    let waiting =
        page.family("turnstream_approvals_waiting", Kind::Gauge, "Approvals that wait for an answer.");
    by_agent(waiting, counts, |counts| counts.approvals_waiting);
    let help = "Decided approvals, by outcome and by who decided.";
    let mut resolved = page.family("turnstream_approvals_resolved_total", Kind::Counter, help);
    for (agent, counts) in counts {
        for ((outcome, by), count) in &counts.approvals_resolved {
            resolved.sample(&[("agent", agent), ("outcome", outcome.as_str()), ("by", by.as_str())], *count);
        }
    }
    let waiting =
        page.family("turnstream_questions_waiting", Kind::Gauge, "Questions that wait for an answer.");
    by_agent(waiting, counts, |counts| counts.questions_waiting);
    let help = "Closed questions, by outcome.";
    let mut answered = page.family("turnstream_questions_answered_total", Kind::Counter, help);
    for (agent, counts) in counts {
        for (outcome, count) in &counts.questions_answered {
            answered.sample(&[("agent", agent), ("outcome", outcome.as_str())], *count);
        }
    }
}

fn caps_reached(page: &mut Page, counts: &BTreeMap<String, EventCounts>) {
    let help = "Caps of budgets that turns and sessions have reached.";
    let mut reached = page.family("turnstream_budget_reached_total", Kind::Counter, help);
    for (agent, counts) in counts {
        for ((scope, cap), count) in &counts.caps_reached {
            reached.sample(&[("agent", agent), ("scope", scope.as_str()), ("cap", cap.as_str())], *count);
        }
    }
}

fn unattended(page: &mut Page, counts: &BTreeMap<String, EventCounts>) {
    let help = "Failed turns that sessions waited to continue.";
    let mut parked = page.family("turnstream_unattended_parked_total", Kind::Counter, help);
    for (agent, counts) in counts {
        for (because, count) in &counts.parked {
            parked.sample(&[("agent", agent), ("because", because.as_str())], *count);
        }
    }
    let help = "Waits to continue a turn that are over, by the reason.";
    let mut released = page.family("turnstream_unattended_released_total", Kind::Counter, help);
    for (agent, counts) in counts {
        for (outcome, count) in &counts.released {
            released.sample(&[("agent", agent), ("outcome", outcome.as_str())], *count);
        }
    }
}

fn notices(page: &mut Page, counts: &BTreeMap<String, EventCounts>) {
    let help = "Approvals that the rule `allow` decided, although the agent should not have asked.";
    let unexpected = page.family("turnstream_unexpected_permissions_total", Kind::Counter, help);
    by_agent(unexpected, counts, |counts| {
        counts.notices.get(&NoticeCode::UnexpectedPermission).copied().unwrap_or_default()
    });
    let mut notices = page.family("turnstream_notices_total", Kind::Counter, "Notices in the logs, by code.");
    for (agent, counts) in counts {
        for (code, count) in &counts.notices {
            notices.sample(&[("agent", agent), ("code", code.as_str())], *count);
        }
    }
}

/// A counter of an agent: its name, its help, and its value.
type Counter = (&'static str, &'static str, fn(&Counts) -> u64);

fn agents(page: &mut Page, counts: &BTreeMap<String, Counts>) {
    let families: [Counter; 7] = [
        ("turnstream_agent_stream_losses_total", "Lost event streams of the agent.", |counts| {
            counts.stream_losses
        }),
        ("turnstream_agent_stream_reconnects_total", "Reconnected event streams of the agent.", |counts| {
            counts.stream_reconnects
        }),
        (
            "turnstream_agent_events_left_out_total",
            "Times that events of the agent were skipped.",
            |counts| counts.events_left_out,
        ),
        ("turnstream_agent_unknown_events_total", "Events of the agent with an unknown type.", |counts| {
            counts.unknown_events
        }),
        ("turnstream_agent_prompt_conflicts_total", "Prompts that the agent refused as busy.", |counts| {
            counts.prompt_conflicts
        }),
        ("turnstream_agent_server_starts_total", "Starts of the agent's server process.", |counts| {
            counts.server_starts
        }),
        (
            "turnstream_agent_server_exits_total",
            "Unexpected exits of the agent's server process.",
            |counts| counts.server_exits,
        ),
    ];
    for (name, help, number) in families {
        by_agent(page.family(name, Kind::Counter, help), counts, number);
    }
}

fn processes(page: &mut Page, usage: &BTreeMap<String, ProcessUsage>) {
    let help = "Resident memory of the agent's processes.";
    by_agent(page.family("turnstream_agent_memory_bytes", Kind::Gauge, help), usage, |usage| usage.memory);
    // A gauge: the time of a process leaves the sum when it ends.
    let help = "CPU time of the agent's processes that run, user and system.";
    let mut cpu = page.family("turnstream_agent_cpu_seconds", Kind::Gauge, help);
    for (agent, usage) in usage {
        cpu.seconds_of(&[("agent", agent)], usage.cpu.as_secs_f64());
    }
    let help = "Processes of the agent that run.";
    by_agent(page.family("turnstream_agent_processes", Kind::Gauge, help), usage, |usage| usage.processes);
}

/// A number of a route: its name, its kind, its help, and its value.
type RouteNumber = (&'static str, Kind, &'static str, fn(&Figures) -> u64);

fn llm_routes(page: &mut Page, routes: &BTreeMap<String, Figures>) {
    let families: [RouteNumber; 4] = [
        ("turnstream_llm_requests_open", Kind::Gauge, "Requests of clients that run.", |route| route.open),
        ("turnstream_llm_attempts_total", Kind::Counter, "Requests to the provider.", |route| route.attempts),
        (
            "turnstream_llm_fallbacks_total",
            Kind::Counter,
            "Requests that came to the route because another one had failed.",
            |route| route.fallbacks,
        ),
        (
            "turnstream_llm_reattached_total",
            Kind::Counter,
            "Requests that took over an answer whose client was gone.",
            |route| route.reattached,
        ),
    ];
    for (name, kind, help, number) in families {
        let mut family = page.family(name, kind, help);
        for (route, figures) in routes {
            family.sample(&[("route", route)], number(figures));
        }
    }
    let help = "Requests of clients that have ended, by outcome.";
    let mut ended = page.family("turnstream_llm_requests_total", Kind::Counter, help);
    for (route, figures) in routes {
        for (outcome, count) in OUTCOMES.into_iter().zip(figures.ended) {
            ended.sample(&[("route", route), ("outcome", outcome)], count);
        }
    }
}
