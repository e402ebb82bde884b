//! The tables, the bars and the results file of `bench gateway`.

use super::Both;
use super::cells::{Idle, Played};
use super::crowd::Tally;
use super::ours::Ours;
use super::peer::Peer;
use super::process::Usage;
use super::side::Side;
use crate::{Bars, Results, millis, print_table};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

const START: Duration = Duration::from_millis(150);
const AT_REST: u64 = 20_000_000;
const IDLE: u64 = 1_000_000_000;
const TIMES_THE_PEER: f64 = 5.0;

/// The measurements so far.
#[derive(Debug)]
pub(crate) struct Report {
    starts: Vec<Vec<String>>,
    rows: Vec<Vec<String>>,
    results: Results,
    /// The bars, which are checked at the end.
    bars: Vec<(String, bool, String)>,
    /// Lost and repeated events of turnstream, over all cells.
    wrong: u64,
    delivered: u64,
}

impl Report {
    pub(crate) fn new(seconds: u64, bytes: usize) -> Self {
        let starts = ["what", "start ms", "idle RSS MB"];
        let columns = [
            "cell",
            "what",
            "subscribers",
            "deliveries/s",
            "events/s",
            "events",
            "lost",
            "repeated",
            "p50 ms",
            "p99 ms",
            "max ms",
            "CPU s",
            "RSS MB",
        ];
        Self {
            starts: vec![starts.map(str::to_owned).to_vec()],
            rows: vec![columns.map(str::to_owned).to_vec()],
            results: Results::new(
                "gateway",
                json!({ "seconds": seconds, "bytes": bytes, "peer": "sandbox-agent 0.4.2" }),
            ),
            bars: Vec::new(),
            wrong: 0,
            delivered: 0,
        }
    }

    /// Start time and an idle server.
    pub(crate) fn at_rest(&mut self, ours: bool, start: Duration, usage: Usage) {
        let what = if ours { Ours::NAME } else { Peer::NAME };
        eprintln!("started: {what}");
        self.starts.push(vec![what.to_owned(), format!("{:.1}", millis(start)), megabytes(usage.resident)]);
        self.results.cell(json!({
            "cell": "start", "what": what, "start_ms": millis(start), "idle_rss_bytes": usage.resident,
        }));
        if ours {
            let measured = format!("{:.1} ms", millis(start));
            self.bar("start to the first 200 below 150 ms".to_owned(), start < START, measured);
            let measured = format!("{} MB", megabytes(usage.resident));
            self.bar("idle RSS below 20 MB".to_owned(), usage.resident < AT_REST, measured);
        }
    }

    /// One session at a rate.
    pub(crate) fn paced(&mut self, rate: u64, both: Both) {
        let cell = format!("1 x {rate}/s");
        let p99 = |played: &Played| played.tally.latencies.p99();
        let ours = self.rounds(&cell, Ours::NAME, &both.ours, |a, b| p99(a).cmp(&p99(b)));
        let peer = self.rounds(&cell, Peer::NAME, &both.peer, |a, b| p99(a).cmp(&p99(b)));
        if let (Some(ours), Some(peer)) = (ours, peer) {
            let (ours, peer) = (millis(p99(ours)), millis(p99(peer)));
            let measured = format!("{ours:.2} ms to {peer:.2} ms, {:.2}x", ours / peer);
            self.bar(format!("p99 below the peer's at 50 subscribers x {rate}/s"), ours < peer, measured);
        }
    }

    /// One session at full speed.
    pub(crate) fn burst(&mut self, events: u64, both: Both) {
        let cell = format!("1 x {events} at once");
        let rate = |played: &Played| played.tally.rate();
        let ours = self.rounds(&cell, Ours::NAME, &both.ours, |a, b| rate(a).total_cmp(&rate(b)));
        let peer = self.rounds(&cell, Peer::NAME, &both.peer, |a, b| rate(a).total_cmp(&rate(b)));
        if let (Some(ours), Some(peer)) = (ours, peer) {
            let over = rate(ours) / rate(peer);
            let measured = format!("{:.0}/s to {:.0}/s, {over:.1}x", rate(ours), rate(peer));
            let what = "at least 5x the peer's deliveries/s in the burst";
            self.bar(what.to_owned(), over >= TIMES_THE_PEER, measured);
        }
    }

    /// The same burst with merging: fewer deliveries, the same events.
    pub(crate) fn merged(&mut self, events: u64, played: Played) {
        let cell = format!("1 x {events} merged");
        self.rounds(&cell, Ours::NAME, &[played], |_, _| std::cmp::Ordering::Equal);
    }

    /// Many sessions at a rate.
    pub(crate) fn many(&mut self, played: Played) {
        self.rounds("200 x 100/s", Ours::NAME, &[played], |_, _| std::cmp::Ordering::Equal);
    }

    /// Idle subscribers.
    pub(crate) fn idle(&mut self, idle: Idle) {
        let cell = format!("{} idle", idle.subscribers);
        eprintln!("measured: {cell}");
        let mut row = self.row(&cell, Ours::NAME, &idle.tally);
        row.extend([String::from("-"), megabytes(idle.after.resident)]);
        self.rows.push(row);
        self.add_up(&idle.tally);
        self.results.cell(json!({
            "cell": cell, "what": Ours::NAME, "subscribers": idle.subscribers,
            "rss_before_bytes": idle.before.resident, "rss_bytes": idle.after.resident,
            "peak_rss_bytes": idle.after.peak, "deliveries": idle.tally.deliveries, "lost": idle.tally.lost,
        }));
        let each = idle.after.resident.saturating_sub(idle.before.resident) / idle.subscribers.max(1) as u64;
        let measured = format!("{} MB, {each} bytes each", megabytes(idle.after.resident));
        let what = format!("{} idle subscribers below 1 GB", idle.subscribers);
        self.bar(what, idle.after.resident < IDLE, measured);
    }

    /// Prints everything, writes the results, and returns whether all bars were met.
    pub(crate) fn finish(mut self) -> ExitCode {
        print_table(&self.starts);
        println!();
        print_table(&self.rows);
        println!();
        let mut bars = Bars::default();
        if self.delivered > 0 {
            let measured = format!("{} delivered, {} wrong", self.delivered, self.wrong);
            self.bars.insert(0, ("zero lost, repeated or cut off".to_owned(), self.wrong == 0, measured));
        }
        for (what, met, measured) in &self.bars {
            bars.check(what, *met, measured);
        }
        self.results.write(&bars);
        bars.exit_code()
    }

    /// Records every round, and returns the median.
    fn rounds<'a>(
        &mut self,
        cell: &str,
        what: &str,
        rounds: &'a [Played],
        order: impl Fn(&Played, &Played) -> std::cmp::Ordering,
    ) -> Option<&'a Played> {
        for played in rounds {
            eprintln!("measured: {cell}, {what}");
            let mut row = self.row(cell, what, &played.tally);
            row.extend([format!("{:.2}", played.cpu.as_secs_f64()), megabytes(played.usage.resident)]);
            self.rows.push(row);
            if what == Ours::NAME {
                self.add_up(&played.tally);
            }
            self.results.cell(as_json(cell, what, played));
        }
        let mut sorted: Vec<&Played> = rounds.iter().collect();
        sorted.sort_by(|a, b| order(a, b));
        sorted.get(sorted.len() / 2).copied()
    }

    fn row(&self, cell: &str, what: &str, tally: &Tally) -> Vec<String> {
        if let Some(why) = &tally.why {
            eprintln!("{cell}, {what}: {} subscribers were cut off, the first: {why}", tally.closed);
        }
        let latency = |at: Duration| {
            if at.is_zero() { String::from("-") } else { format!("{:.2}", millis(at)) }
        };
        vec![
            cell.to_owned(),
            what.to_owned(),
            tally.subscribers.to_string(),
            format!("{:.0}", tally.rate()),
            format!("{:.0}", tally.event_rate()),
            tally.events.to_string(),
            tally.lost.to_string(),
            tally.repeated.to_string(),
            latency(tally.latencies.p50()),
            latency(tally.latencies.p99()),
            latency(tally.latencies.max()),
        ]
    }

    fn add_up(&mut self, tally: &Tally) {
        self.delivered += tally.deliveries;
        self.wrong += tally.lost + tally.repeated + tally.anomalies + tally.closed as u64;
    }

    fn bar(&mut self, what: String, met: bool, measured: String) {
        self.bars.push((what, met, measured));
    }
}

fn as_json(cell: &str, what: &str, played: &Played) -> serde_json::Value {
    let tally = &played.tally;
    json!({
        "cell": cell,
        "what": what,
        "subscribers": tally.subscribers,
        "deliveries": tally.deliveries,
        "deliveries_per_second": tally.rate(),
        "events": tally.events,
        "events_per_second": tally.event_rate(),
        "lost": tally.lost,
        "repeated": tally.repeated,
        "anomalies": tally.anomalies,
        "cut_off": tally.closed,
        "elapsed_ms": millis(tally.elapsed),
        "p50_ms": millis(tally.latencies.p50()),
        "p99_ms": millis(tally.latencies.p99()),
        "p999_ms": millis(tally.latencies.p999()),
        "max_ms": millis(tally.latencies.max()),
        "cpu_s": played.cpu.as_secs_f64(),
        "rss_bytes": played.usage.resident,
        "peak_rss_bytes": played.usage.peak,
    })
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}
