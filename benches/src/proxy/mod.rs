//! `cargo xtask bench proxy`: streams through the proxy, through the LiteLLM proxy, and without one.
//!
//! The provider and the clients are in this process, and the same for all three. Every run checks that each
//! token comes once and in order.

mod provider;
mod streams;

use crate::gateway::process::{self, Server};
use crate::idle::release_binary;
use crate::scratch::scratch;
use crate::{Bars, Latencies, Results, millis, print_table};
use provider::Wanted;
use serde_json::json;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use streams::Measured;

/// Runs of each cell. The median counts.
const RUNS: usize = 5;
const MANY: usize = 200;
/// Tokens per second of a paced stream.
const PACE: u64 = 50;
/// How long LiteLLM may take to start: it loads for a while.
const LITELLM_START: Duration = Duration::from_secs(180);
/// The variable with the program of LiteLLM.
const LITELLM: &str = "TURNSTREAM_BENCH_LITELLM";
const LITELLM_NAME: &str = "LiteLLM";

/// Where streams come from.
struct Contender {
    name: &'static str,
    address: SocketAddr,
    path: &'static str,
    server: Option<Server>,
    /// Its tokens are fewer by this, so that a slow one ends.
    divided_by: u64,
}

/// What is asked in one cell.
#[derive(Clone, Copy)]
struct Cell {
    streams: usize,
    wanted: Wanted,
}

/// The medians of one contender in one cell.
struct Medians {
    first: f64,
    p50: f64,
    p99: f64,
    rate: f64,
    /// CPU time of the server for one token, in microseconds.
    cpu: Option<f64>,
}

/// Runs the benchmark.
pub fn run() -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("bench proxy: cannot start a runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match measure(&runtime) {
        Ok(bars) => bars.exit_code(),
        Err(problem) => {
            eprintln!("bench proxy: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn measure(runtime: &tokio::runtime::Runtime) -> Result<Bars, String> {
    let directory = scratch("proxy-")?;
    process::end_with_us(directory.path())?;
    process::raise_open_files(4096)?;
    let provider = runtime.block_on(provider::start()).map_err(|error| format!("no provider: {error}"))?;
    let mut contenders = vec![
        Contender {
            name: "direct",
            address: provider,
            path: "/v1/chat/completions",
            server: None,
            divided_by: 1,
        },
        ours(directory.path(), provider)?,
    ];
    match std::env::var_os(LITELLM) {
        Some(program) => contenders.push(litellm(&PathBuf::from(program), directory.path(), provider)?),
        None => println!("LiteLLM is left out\n"),
    }
    let cell = |streams, tokens, rate| Cell { streams, wanted: Wanted { tokens, rate } };
    let cells = [
        cell(1, 150, Some(PACE)),
        cell(MANY, 150, Some(PACE)),
        cell(1, 50_000, None),
        cell(MANY, 2_000, None),
    ];
    let mut results = Results::new("proxy", json!({ "runs": RUNS }));
    let mut all = Vec::new();
    for cell in cells {
        let medians = runtime.block_on(measure_cell(&contenders, cell))?;
        show(cell, &contenders, &medians, &mut results);
        all.push(medians);
    }
    let of = |cell: usize, contender: usize| all[cell][contender].as_ref().ok_or("a cell has no result");
    let mut bars = Bars::default();
    let ratio = of(1, 1)?.p99 / of(1, 0)?.p99;
    let what = "p99 between tokens at 200 paced streams at most 1.5x direct";
    bars.check(what, ratio <= 1.5, &format!("{ratio:.2}x"));
    if contenders.iter().any(|contender| contender.name == LITELLM_NAME) {
        let of_litellm = all.iter().filter_map(|medians| medians.get(2)?.as_ref()).map(|cell| cell.rate);
        check_times(&mut bars, of(3, 1)?.rate, of_litellm);
    }
    // A run in which a token is missing, repeated or out of order has ended the benchmark.
    bars.check("every chunk accounted for", true, "all tokens of all runs, once and in order");
    results.write(&bars);
    Ok(bars)
}

/// Checks the tokens per second against those of LiteLLM, in the cells in which it did not break. Its best
/// cell counts, which favours it.
fn check_times(bars: &mut Bars, ours: f64, of_litellm: impl Iterator<Item = f64>) {
    let what = "tokens/s at saturation at least 50x the most that LiteLLM reached";
    match of_litellm.max_by(f64::total_cmp) {
        Some(best) => bars.check(what, ours / best >= 50.0, &format!("{:.0}x", ours / best)),
        None => bars.check(what, false, "not measured: LiteLLM broke in every cell"),
    }
}

/// The medians of all contenders, which take turns. A peer that breaks has none in this cell.
async fn measure_cell(contenders: &[Contender], cell: Cell) -> Result<Vec<Option<Medians>>, String> {
    let mut runs: Vec<Vec<(Measured, Option<Duration>)>> = contenders.iter().map(|_| Vec::new()).collect();
    let mut broken = Vec::new();
    for _ in 0..RUNS {
        for (contender, runs) in contenders.iter().zip(&mut runs) {
            let Contender { name, address, path, server, divided_by } = contender;
            if broken.contains(name) {
                continue;
            }
            let divided_by = if cell.wanted.rate.is_some() { 1 } else { *divided_by };
            let wanted = Wanted { tokens: (cell.wanted.tokens / divided_by).max(20), ..cell.wanted };
            let before = server.as_ref().map(|server| server.usage().cpu);
            let measured = streams::read(*address, path, cell.streams, wanted).await;
            let measured = match measured {
                Ok(measured) => measured,
                Err(problem) if *name == LITELLM_NAME => {
                    println!("{name} breaks at {} streams: {problem}\n", cell.streams);
                    broken.push(*name);
                    continue;
                }
                Err(problem) => return Err(format!("{name}: {problem}")),
            };
            let cpu = server.as_ref().zip(before).map(|(server, before)| server.usage().cpu - before);
            runs.push((measured, cpu));
        }
    }
    let medians = contenders.iter().zip(&runs);
    Ok(medians.map(|(of, runs)| (!broken.contains(&of.name)).then(|| Medians::of(runs))).collect())
}

impl Medians {
    fn of(runs: &[(Measured, Option<Duration>)]) -> Self {
        let of = |value: &dyn Fn(&Measured) -> f64| median(runs.iter().map(|(run, _)| value(run)).collect());
        let per_token = |(run, cpu): &(Measured, Option<Duration>)| {
            Some(cpu.as_ref()?.as_secs_f64() * 1e6 / run.tokens as f64)
        };
        let cpu: Vec<f64> = runs.iter().filter_map(per_token).collect();
        Self {
            first: of(&|run| millis(run.first.p50())),
            p50: of(&|run| millis(run.between.p50())),
            p99: of(&|run| millis(Latencies::p99(&run.between))),
            rate: of(&|run| run.tokens as f64 / run.elapsed.as_secs_f64()),
            cpu: (!cpu.is_empty()).then(|| median(cpu)),
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn show(cell: Cell, contenders: &[Contender], medians: &[Option<Medians>], results: &mut Results) {
    let pace =
        cell.wanted.rate.map_or("as fast as possible".to_owned(), |rate| format!("{rate} tokens/s each"));
    println!("{} streams, {pace}: median of {RUNS} runs\n", cell.streams);
    let head = [
        "",
        "first token ms",
        "x direct",
        "between p50 ms",
        "x direct",
        "p99 ms",
        "x direct",
        "tokens/s",
        "CPU us per token",
    ];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    let Some(Some(direct)) = medians.first() else { return };
    for (contender, now) in contenders.iter().zip(medians) {
        let Some(now) = now else { continue };
        let times = |now: f64, direct: f64| {
            if direct > 0.0 { format!("{:.2}", now / direct) } else { "-".to_owned() }
        };
        table.push(vec![
            contender.name.to_owned(),
            format!("{:.2}", now.first),
            times(now.first, direct.first),
            format!("{:.3}", now.p50),
            times(now.p50, direct.p50),
            format!("{:.3}", now.p99),
            times(now.p99, direct.p99),
            format!("{:.0}", now.rate),
            now.cpu.map_or("-".to_owned(), |cpu| format!("{cpu:.1}")),
        ]);
        results.cell(json!({
            "streams": cell.streams, "rate": cell.wanted.rate, "of": contender.name, "first_ms": now.first,
            "p50_ms": now.p50, "p99_ms": now.p99, "tokens_per_second": now.rate, "cpu_us_per_token": now.cpu,
        }));
    }
    print_table(&table);
    println!();
}

fn ours(home: &Path, provider: SocketAddr) -> Result<Contender, String> {
    let home = home.join("ours");
    let mut command = process::command(&release_binary(), &home)?;
    let address = process::free_address()?;
    let file = home.join("turnstream.toml");
    let config = format!(
        "listen = \"{address}\"\ndata = {:?}\nauth = \"none\"\n\n[llm.routes.main]\nurl = \"http://{provider}/v1\"\n\
         format = \"chat\"\n",
        home.join("log")
    );
    std::fs::write(&file, config).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    command.env("TURNSTREAM_DISCOVER", "false").env("TURNSTREAM_LIMITS_REQUESTS_PER_SECOND", "100000");
    command.args(["serve", "--config"]).arg(file);
    let server = Some(Server::start(command, address, &home.join("said.txt"))?);
    Ok(Contender { name: "turnstream", address, path: "/llm/main/chat/completions", server, divided_by: 1 })
}

fn litellm(program: &Path, home: &Path, provider: SocketAddr) -> Result<Contender, String> {
    let home = home.join("litellm");
    let mut command = process::command(program, &home)?;
    let address = process::free_address()?;
    let file = home.join("litellm.yaml");
    let config = format!(
        "model_list:\n  - model_name: bench\n    litellm_params:\n      model: openai/bench\n      \
         api_base: http://{provider}/v1\n      api_key: none\nlitellm_settings:\n  telemetry: false\n"
    );
    std::fs::write(&file, config).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    // Its table of prices would be fetched otherwise, and without a key it would not start.
    command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
    command.env("LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY", "true").arg("--config").arg(file);
    command.args(["--host", "127.0.0.1", "--num_workers", "1", "--port", &address.port().to_string()]);
    let said = home.join("said.txt");
    let server = Server::start_at(command, address, &said, "/health/liveliness", LITELLM_START)?;
    let (path, server) = ("/v1/chat/completions", Some(server));
    Ok(Contender { name: LITELLM_NAME, address, path, server, divided_by: 100 })
}

#[cfg(test)]
mod tests {
    use super::check_times;
    use crate::Bars;

    #[test]
    fn a_peer_that_breaks_in_every_cell_leaves_a_bar_that_is_not_met() {
        let mut bars = Bars::default();
        check_times(&mut bars, 60_000.0, [1000.0, 900.0].into_iter());
        check_times(&mut bars, 60_000.0, std::iter::empty());
        let met: Vec<_> = bars.as_json().iter().map(|bar| (&bar["met"], &bar["measured"])).collect();
        let (met_at, broken) = ("60x".into(), "not measured: LiteLLM broke in every cell".into());
        assert_eq!(met, [(&true.into(), &met_at), (&false.into(), &broken)]);
    }
}
