//! Builds a log of many finished items, then searches it.

pub(crate) mod text;

use crate::scratch::scratch;
use crate::{Bars, Results, millis, print_table};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use text::Writer;
use turnstream_log::{Log, Options, Page, Query};
use turnstream_model::event::{Body, Draft, Field, ItemKind, ItemState, Role, Tool};
use turnstream_model::id::{ItemId, SessionId, TurnId};
use turnstream_model::time::Time;

const ITEMS: u64 = 1_000_000;
const QUICK_ITEMS: u64 = 50_000;
/// Items per session.
const ITEMS_EACH: u64 = 500;
const AGENTS: [&str; 4] = ["opencode", "claude", "codex", "rare"];
/// The time of the first item, and the interval between items: a month in total.
const BEGIN: u64 = 1_794_000_000_000;
const STEP: u64 = 2_600;
/// Runs per query.
const RUNS: usize = 20;
const BAR: Duration = Duration::from_millis(100);

/// Runs the benchmark.
pub fn run() -> ExitCode {
    let items = if std::env::args().any(|word| word == "--quick") { QUICK_ITEMS } else { ITEMS };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.to_string()),
    };
    match runtime.block_on(measure(items)) {
        Ok(bars) => bars.exit_code(),
        Err(problem) => failed(&problem),
    }
}

fn failed(problem: &str) -> ExitCode {
    eprintln!("bench search: {problem}");
    ExitCode::FAILURE
}

async fn measure(items: u64) -> Result<Bars, String> {
    let directory = scratch("search-")?;
    let mut writer = Writer::new(7);
    let begun = Instant::now();
    let bytes = build(directory.path(), items, &mut writer).await?;
    let built = begun.elapsed();
    let size = std::fs::metadata(directory.path().join("log.db")).map_err(|error| error.to_string())?.len();
    println!(
        "{items} items, {} MB of text: appended, settled and indexed in {:.1} s ({:.0} items/s); log.db has {} MB\n",
        bytes / 1_000_000,
        built.as_secs_f64(),
        items as f64 / built.as_secs_f64(),
        size / 1_000_000
    );

    let log = Log::open(directory.path(), &Options::default()).map_err(|error| error.to_string())?.log;
    let (mut bars, mut table) = (Bars::default(), vec![heading()]);
    let about =
        json!({"items": items, "text_bytes": bytes, "database_bytes": size, "build_ms": millis(built)});
    let mut results = Results::new("search", about);
    let mut slowest = (Duration::ZERO, String::new());
    for (name, query) in queries(&writer, items) {
        let (page, mut times) = time(&log, &query)?;
        let hits = page.hits.len();
        times.sort_unstable();
        let (half, most) = (times[times.len() / 2], times[times.len() - 1]);
        table.push(vec![
            name.to_owned(),
            shortened(&query.words),
            if page.is_incomplete { format!("{hits} so far") } else { hits.to_string() },
            format!("{:.2}", millis(half)),
            format!("{:.2}", millis(most)),
        ]);
        results.cell(json!({"query": name, "hits": hits, "incomplete": page.is_incomplete, "p50_ms": millis(half), "max_ms": millis(most)}));
        slowest = slowest.max((most, name.to_owned()));
    }
    let pages = ten_pages(&log, writer.word(0))?;
    let to_the_end = to_the_end(&log, &rare_phrase(&writer))?;
    print_table(&table);
    println!("\nten pages of {:?} one after the other: {:.2} ms in all", writer.word(0), millis(pages));
    let End { pages: count, hits, total, slowest: worst } = to_the_end;
    println!(
        "a rare phrase of the most frequent words to its end: {hits} hits on {count} pages, {:.0} ms in all, {:.0} ms the slowest\n",
        millis(total),
        millis(worst)
    );
    results.cell(json!({"query": "ten pages", "total_ms": millis(pages)}));
    results.cell(
        json!({"query": "a rare phrase of the most frequent words, to the end", "pages": count, "hits": hits,
        "total_ms": millis(total), "max_ms": millis(worst)}),
    );
    let measured = format!("{:.2} ms ({})", millis(slowest.0), slowest.1);
    bars.check("the slowest first page of any query takes less than 100 ms", slowest.0 < BAR, &measured);
    results.write(&bars);
    log.close().await;
    Ok(bars)
}

fn heading() -> Vec<String> {
    ["query", "words", "hits", "p50 ms", "max ms"].map(str::to_owned).to_vec()
}

fn queries(writer: &Writer, items: u64) -> Vec<(&'static str, Query)> {
    let (common, second) = (writer.word(0), writer.word(1));
    let frequent = (0..30).map(|rank| writer.word(rank)).collect::<Vec<_>>().join(" ");
    let words = |words: &str| Query { words: words.to_owned(), ..Query::default() };
    let at = |item: u64| Some(Time(BEGIN + item * STEP));
    let session = Some(session((items / ITEMS_EACH) / 3));
    let old_hour = Query { from: at(items / 3), to: at(items / 3 + 3_600_000 / STEP), ..words(common) };
    vec![
        ("a rare word", words(writer.word(50_000))),
        ("a common word", words(common)),
        ("two common words", words(&format!("{common} {second}"))),
        ("a common and a rare one", words(&format!("{common} {}", writer.word(50_000)))),
        ("a word and not another", words(&format!("{common} -{second}"))),
        ("a phrase", words(&format!("\"{common} {second}\""))),
        ("two letters and a star", words("re*")),
        ("three letters and a star", words("ses*")),
        ("four letters and a star", words("sess*")),
        ("six letters and a star", words("sessio*")),
        ("a star beside a rare word", words(&format!("se* {}", writer.word(50_000)))),
        ("common, one session", Query { session: session.clone(), ..words(common) }),
        ("a star, one session", Query { session, ..words("se*") }),
        ("common, a rare agent", Query { agent: Some("rare".to_owned()), ..words(common) }),
        ("common, tools only", Query { kind: Some(ItemKind::Tool), ..words(common) }),
        ("common, of the user", Query { role: Some(Role::User), ..words(common) }),
        ("common, an hour long ago", old_hour.clone()),
        ("rare, an hour long ago", Query { words: writer.word(50_000).to_owned(), ..old_hour }),
        ("common, before everything", Query { to: at(0), ..words(common) }),
        ("common, of nobody", Query { agent: Some("nobody".to_owned()), ..words(common) }),
        // From here on, expensive queries.
        ("a rare phrase of the most frequent", rare_phrase(writer)),
        ("thirty frequent words, one unwanted", words(&format!("{frequent} -{common}"))),
        ("thirty frequent words as a phrase", words(&format!("\"{frequent}\""))),
        ("the beginnings of thirty words", words(&format!("{} -{common}", beginnings(writer, 2)))),
        ("thirty long beginnings", words(&format!("{} -{common}", beginnings(writer, 5)))),
        ("a long beginning in a phrase", words(&format!("\"{common} {second} sessio*\" -{common}"))),
    ]
}

fn rare_phrase(writer: &Writer) -> Query {
    let (common, second) = (writer.word(0), writer.word(1));
    Query { words: format!("\"{common} {second} {common} {second} {common}\""), ..Query::default() }
}

/// A query of prefixes of frequent words.
fn beginnings(writer: &Writer, letters: usize) -> String {
    let long = (0..1_000).map(|rank| writer.word(rank)).filter(|word| word.len() > letters);
    long.take(30).map(|word| format!("{}* ", &word[..letters])).collect()
}

fn shortened(words: &str) -> String {
    match words.char_indices().nth(36) {
        Some((end, _)) => format!("{}\u{2026}", &words[..end]),
        None => words.to_owned(),
    }
}

/// The first page, and the time of each run.
fn time(log: &Log, query: &Query) -> Result<(Page, Vec<Duration>), String> {
    let (mut first, mut times) = (None, Vec::with_capacity(RUNS));
    for _ in 0..RUNS {
        let begun = Instant::now();
        let page = log.search(query).map_err(|error| format!("{:?}: {error}", query.words))?;
        times.push(begun.elapsed());
        first = Some(page);
    }
    Ok((first.ok_or("it was not asked")?, times))
}

/// The time to read all pages of a query.
struct End {
    pages: usize,
    hits: usize,
    total: Duration,
    slowest: Duration,
}

fn to_the_end(log: &Log, query: &Query) -> Result<End, String> {
    let mut query = query.clone();
    let mut end = End { pages: 0, hits: 0, total: Duration::ZERO, slowest: Duration::ZERO };
    loop {
        let begun = Instant::now();
        let page = log.search(&query).map_err(|error| error.to_string())?;
        let took = begun.elapsed();
        end.pages += 1;
        end.hits += page.hits.len();
        end.total += took;
        end.slowest = end.slowest.max(took);
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return Ok(end),
        }
    }
}

fn ten_pages(log: &Log, words: &str) -> Result<Duration, String> {
    let mut query = Query { words: words.to_owned(), ..Query::default() };
    let begun = Instant::now();
    for _ in 0..10 {
        let page = log.search(&query).map_err(|error| error.to_string())?;
        query.cursor = Some(page.next.ok_or("there are fewer than ten pages")?);
    }
    Ok(begun.elapsed())
}

fn session(number: u64) -> SessionId {
    SessionId::from(format!("s{number}"))
}

/// Appends everything to a log, and returns the bytes of text.
async fn build(path: &Path, items: u64, writer: &mut Writer) -> Result<u64, String> {
    let log = Log::open(path, &Options::default()).map_err(|error| error.to_string())?.log;
    let mut bytes = 0;
    for number in 0..items / ITEMS_EACH {
        let id = session(number);
        let mut appender = log.create(&id).await.map_err(|error| error.to_string())?;
        // One in a hundred.
        let agent = AGENTS[if number % 100 == 7 { 3 } else { (number % 3) as usize }].to_owned();
        let created = Body::SessionCreated { session: id, agent, cwd: "/w".into(), title: None, key: None };
        let mut receipt = appender.append(vec![Draft::new(created)], Time(BEGIN)).await;
        for place in 0..ITEMS_EACH {
            let item = number * ITEMS_EACH + place;
            let text = writer.text();
            bytes += text.len() as u64;
            receipt = appender.append(said(item, text), Time(BEGIN + item * STEP)).await;
        }
        receipt.map_err(|error| error.to_string())?.await.map_err(|error| error.to_string())?;
    }
    log.flush().await;
    log.close().await;
    Ok(bytes)
}

fn said(number: u64, text: String) -> Vec<Draft> {
    let draft = |body| Draft {
        turn: Some(TurnId::from("t1")),
        item: Some(ItemId::from(format!("i{number}"))),
        ..Draft::new(body)
    };
    let (kind, role, tool) = match number % 10 {
        0 => (ItemKind::Message, Some(Role::User), None),
        1..4 => (ItemKind::Tool, None, Some(Box::new(Tool { name: Some("bash".into()), ..Tool::default() }))),
        4 => (ItemKind::Reasoning, None, None),
        _ => (ItemKind::Message, Some(Role::Assistant), None),
    };
    let started = Body::ItemStarted { kind, role, synthetic: false, text: None, tool, native_id: None };
    let ended =
        Body::ItemEnded { state: ItemState::Completed, reason: None, incomplete: false, caused_by: None };
    vec![draft(started), draft(Body::ItemDelta { field: Field::Text, text }), draft(ended)]
}
