//! Builds one long session, then reads pages: after a start, repeatedly, and while events arrive.

use crate::scratch::scratch;
use crate::{Bars, Results, millis, print_table};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use turnstream_log::{EventsQuery, ItemsQuery, Log, Merge, Options, PageError};
use turnstream_model::cursor::{Cursor, Seq};
use turnstream_model::event::{Body, Draft, Field, ItemKind, ItemState, Origin, Outcome, Role};
use turnstream_model::id::{ItemId, SessionId, TurnId};
use turnstream_model::time::Time;

/// The number of turns, each with a thousand events.
const TURNS: u64 = 1_000;
const QUICK_TURNS: u64 = 50;
/// Items per turn, and deltas per item. With start and end a turn has a thousand events.
const ITEMS: u64 = 10;
const DELTAS: u64 = 97;
const LIMIT: usize = 50;
const RUNS: usize = 40;
const BAR: Duration = Duration::from_millis(50);
/// The interval of live events: a thousand per second.
const PACE: Duration = Duration::from_millis(1);

/// Runs the benchmark.
pub fn run() -> ExitCode {
    let turns = if std::env::args().any(|word| word == "--quick") { QUICK_TURNS } else { TURNS };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.to_string()),
    };
    match runtime.block_on(measure(turns)) {
        Ok(bars) => bars.exit_code(),
        Err(problem) => failed(&problem),
    }
}

fn failed(problem: &str) -> ExitCode {
    eprintln!("bench history: {problem}");
    ExitCode::FAILURE
}

fn options() -> Options {
    Options { merge: Merge::Nothing, ..Options::default() }
}

fn session() -> SessionId {
    SessionId::from("ses_long")
}

async fn measure(turns: u64) -> Result<Bars, String> {
    let directory = scratch("history-")?;
    let begun = Instant::now();
    build(directory.path(), turns).await?;
    println!("{} events in {:.1} s\n", 1 + turns * 1_000, begun.elapsed().as_secs_f64());
    let log = Log::open(directory.path(), &options()).map_err(|error| error.to_string())?.log;
    let (_, head) = log.head(&session()).map_err(|error| error.to_string())?;
    let mut bars = Bars::default();
    let mut results = Results::new("history", json!({"events": head.0, "limit": LIMIT}));
    let mut table = vec![["page", "first ms", "p50 ms", "max ms"].map(str::to_owned).to_vec()];
    let middle = Some(ItemId::from(format!("i{}", turns * ITEMS / 2)));
    let item_page = |before: Option<ItemId>| {
        let log = log.clone();
        move || {
            let query = ItemsQuery { before: before.clone(), limit: LIMIT };
            log.items_page(&session(), &query).map(|page| page.items.len())
        }
    };
    let event_page = |from: Seq| {
        let log = log.clone();
        move || {
            let query = EventsQuery { from: Some(Cursor { generation: None, seq: from }), limit: LIMIT };
            log.events_page(&session(), &query).map(|page| page.events.len())
        }
    };
    let mut row = |name: &str, page: &dyn Fn() -> Result<usize, PageError>| {
        let (first, half, most) = time(page)?;
        let cells = [first, half, most].map(|time| format!("{:.2}", millis(time)));
        table.push([vec![name.to_owned()], cells.to_vec()].concat());
        results.cell(
            json!({"page": name, "first_ms": millis(first), "p50_ms": millis(half), "max_ms": millis(most)}),
        );
        Ok::<Duration, String>(most)
    };
    let newest = row("the newest items, after a start", &item_page(None))?;
    row("items in the middle", &item_page(middle))?;
    row("the oldest events", &event_page(Seq(0)))?;
    row("events in the middle", &event_page(Seq(head.0 / 2)))?;
    row("the newest events", &event_page(Seq(head.0.saturating_sub(LIMIT as u64))))?;
    let talking = tokio::spawn(talk(log.clone(), turns + 1));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let live = row("the newest items, while it talks", &item_page(None))?;
    talking.abort();
    print_table(&table);
    let slowest = newest.max(live);
    let bar = "the first page of a session of 1,000,000 events takes less than 50 ms";
    bars.check(bar, slowest < BAR, &format!("{:.2} ms", millis(slowest)));
    results.write(&bars);
    log.close().await;
    Ok(bars)
}

/// The first time, the median and the longest.
fn time(page: &dyn Fn() -> Result<usize, PageError>) -> Result<(Duration, Duration, Duration), String> {
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let begun = Instant::now();
        let read = page().map_err(|error| error.to_string())?;
        times.push(begun.elapsed());
        if read == 0 {
            return Err("a page is empty".to_owned());
        }
    }
    let first = times[0];
    times.sort_unstable();
    Ok((first, times[times.len() / 2], times[times.len() - 1]))
}

async fn build(path: &Path, turns: u64) -> Result<(), String> {
    let log = Log::open(path, &options()).map_err(|error| error.to_string())?.log;
    let mut appender = log.create(&session()).await.map_err(|error| error.to_string())?;
    let created = Body::SessionCreated {
        session: session(),
        agent: "bench".into(),
        cwd: "/w".into(),
        title: None,
        key: None,
    };
    let mut drafts = vec![Draft::new(created)];
    for number in 1..=turns {
        drafts.extend(turn(number));
        let receipt = appender.append(std::mem::take(&mut drafts), Time(number)).await;
        receipt.map_err(|error| error.to_string())?.await.map_err(|error| error.to_string())?;
    }
    drop(appender);
    log.close().await;
    Ok(())
}

/// Appends turn after turn at a steady pace, until it is aborted.
async fn talk(log: Log, mut number: u64) -> Result<(), String> {
    let mut appender = log.claim(&session()).await.map_err(|error| error.to_string())?;
    loop {
        for draft in turn(number) {
            let receipt = appender.append(vec![draft], Time(number)).await;
            receipt.map_err(|error| error.to_string())?.await.map_err(|error| error.to_string())?;
            tokio::time::sleep(PACE).await;
        }
        number += 1;
    }
}

fn turn(number: u64) -> Vec<Draft> {
    let turn = Some(TurnId::from(format!("t{number}")));
    let of_turn = |body| Draft { turn: turn.clone(), ..Draft::new(body) };
    let started = Body::TurnStarted { origin: Origin::Agent, prompts: Vec::new(), native_id: None };
    let mut drafts = vec![of_turn(started)];
    for place in 1..=ITEMS {
        let item = Some(ItemId::from(format!("i{}", (number - 1) * ITEMS + place)));
        let of_item = |body| Draft { item: item.clone(), ..of_turn(body) };
        drafts.push(of_item(Body::ItemStarted {
            kind: ItemKind::Message,
            role: Some(Role::Assistant),
            synthetic: false,
            text: Some(String::new()),
            tool: None,
            native_id: None,
        }));
        for delta in 0..DELTAS + u64::from(place < ITEMS - 1) {
            let text = format!("delta {delta} of item {place}, some words long; ");
            drafts.push(of_item(Body::ItemDelta { field: Field::Text, text }));
        }
        let state = ItemState::Completed;
        drafts.push(of_item(Body::ItemEnded { state, reason: None, incomplete: false, caused_by: None }));
    }
    let outcome = Outcome::Completed;
    drafts.push(of_turn(Body::TurnEnded {
        outcome,
        stop_reason: None,
        usage: None,
        cost: None,
        summed: true,
        error: None,
    }));
    drafts
}
