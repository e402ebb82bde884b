//! The gateway is killed at named places while a real agent works. No prompt is lost or run twice, every turn
//! has one end, and the session goes on. Each agent says what has to become of its first turn.

use crate::real_agent::{ended, of_type, outcomes, serve_armed, work};
use crate::support::{Home, Serving, is_full, read, wait_for};
use rustix::process::Signal;
use serde_json::Value;

const MARKER: &str = "TURNSTREAM_FAILPOINT_REACHED";

/// Where the gateway stops, and how often it has passed there before.
const POINTS: &[(&str, &[u32])] = &[
    ("keeper.connected", &[1]),
    ("keeper.durable", &[2, 1]),
    ("keeper.told", &[1, 2]),
    ("keeper.append", &[5, 3, 9]),
    ("log.after_sync", &[6, 4, 8]),
    ("log.published", &[4, 3, 5]),
];

/// Where a gateway that recovers stops.
const RECOVERY_POINTS: &[&str] = &["keeper.caught_up", "keeper.recovering", "keeper.claimed"];

/// A command that leaves a line each time it runs.
const RUNS: &str = "echo run >> runs.txt";
/// The same command, which then waits for a file.
const RUNS_AND_WAITS: &str = "echo run >> runs.txt; until [ -e go.txt ]; do sleep 0.1; done";

/// What the model says after the command.
pub(crate) const ANSWER: &str = "It was run, once and only once.";

/// A home with an agent. Its model runs a command in the first turn, and says [`ANSWER`].
pub(crate) trait KillLab {
    fn home(&self) -> &Home;
    fn session(&self, serving: &Serving) -> String;
    /// Sends a prompt under its text as key.
    fn prompt(address: &str, session: &str, text: &str) -> (String, Value);
    fn processes(&self) -> Vec<(i32, String)>;
    /// Judges the first turn, in which the command has run so often.
    fn assert_first_turn(&self, serving: &Serving, session: &str, log: &[Value], runs: usize, at: &str);
}

/// Kills the gateway where it has stopped at its failpoint, or when the turn is over. Returns whether it was
/// the failpoint: how many commits a turn takes depends on time.
fn kill_at_failpoint(home: &Home, serving: Serving) -> bool {
    let (out, lines) = (home.path("serve.out"), home.path("serve.err"));
    let stopped = || read(&out).contains(MARKER);
    wait_for(|| (stopped() || read(&lines).contains("turn ended")).then_some(()));
    let is_reached = stopped();
    serving.end(Signal::KILL);
    is_reached
}

/// After a kill: the prompt has one turn with one end, the command ran once at most, and the session goes on.
fn assert_recovered<L: KillLab>(lab: &L, session: &str, at: &str) {
    let home = lab.home();
    let serving = serve_armed(home, None);
    let prompt = |text: &str| L::prompt(&serving.address, session, text).0.starts_with("http/1.1 2");
    // The prompt may not have been accepted before the kill. Under its key it runs once.
    wait_for(|| prompt("Run it").then_some(()));
    let log = ended(home, session, 1);
    let runs = work(home, "runs.txt").lines().count();
    assert!(runs <= 1, "{at}: {runs} runs");
    lab.assert_first_turn(&serving, session, &log, runs, at);
    assert!(prompt("Again"), "{at}");
    let log = ended(home, session, 2);
    assert_eq!(outcomes(&log)[1..], ["completed"], "{at}: {log:#?}");
    assert_eq!(of_type(&log, "turn.started").len(), 2, "{at}");
    assert!(work(home, "runs.txt").lines().count() <= 1, "{at}");
    serving.end(Signal::TERM);
    wait_for(|| lab.processes().is_empty().then_some(()));
}

/// Kills the gateway at each of the places, in a lab of its own. A turn that is over before is tried again
/// with an earlier one, and every place is reached.
pub(crate) fn kill_anywhere<L: KillLab>(lab: impl Fn(&str) -> L) {
    for (name, times) in POINTS {
        let times = if is_full() { times } else { &times[..1] };
        for nth in times {
            let is_reached = (1..=*nth).rev().any(|nth| kill_at(&lab(RUNS), &format!("{name}:{nth}")));
            assert!(is_reached, "{name} was never reached");
        }
    }
}

/// Kills the gateway at this place of the first turn. Returns whether it was reached.
fn kill_at<L: KillLab>(lab: &L, point: &str) -> bool {
    // The session is created before the failpoint is armed.
    let serving = serve_armed(lab.home(), None);
    let session = lab.session(&serving);
    serving.end(Signal::TERM);
    let serving = serve_armed(lab.home(), Some(point));
    let (address, sent) = (serving.address.clone(), session.clone());
    // The answer may never come.
    let sender =
        std::thread::spawn(move || std::panic::catch_unwind(|| L::prompt(&address, &sent, "Run it")).is_ok());
    let is_reached = kill_at_failpoint(lab.home(), serving);
    let _answered = sender.join();
    assert_recovered(lab, &session, point);
    is_reached
}

/// How often the command ran, by the end of its call in the log.
pub(crate) fn runs_by_log(items: &[Value]) -> usize {
    let calls: Vec<&Value> = items.iter().filter(|item| item["kind"] == "tool").collect();
    let [call] = calls[..] else { panic!("one call: {calls:#?}") };
    match call["state"].as_str().unwrap() {
        "completed" => 1,
        // Its permission was open when the gateway was killed, and died with it: the command did not run.
        "failed" => 0,
        other => panic!("the agent has told how the call ended, and the log says {other}: {call:#}"),
    }
}

/// Kills the gateway in a turn, and the next one while it recovers.
pub(crate) fn kill_while_recovering<L: KillLab>(lab: impl Fn(&str) -> L) {
    let points = if is_full() { RECOVERY_POINTS } else { &RECOVERY_POINTS[..1] };
    for point in points {
        let lab = lab(RUNS_AND_WAITS);
        let home = lab.home();
        let serving = serve_armed(home, None);
        let session = lab.session(&serving);
        let (head, answer) = L::prompt(&serving.address, &session, "Run it");
        assert!(head.starts_with("http/1.1 202 "), "{head} {answer}");
        wait_for(|| (work(home, "runs.txt") == "run\n").then_some(()));
        serving.end(Signal::KILL);
        std::fs::write(home.path("work/go.txt"), "").unwrap();
        let serving = serve_armed(home, Some(point));
        assert!(kill_at_failpoint(home, serving), "{point} was not reached");
        assert_recovered(&lab, &session, point);
    }
}
