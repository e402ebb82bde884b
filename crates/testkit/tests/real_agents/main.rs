//! Real agents with the scripted provider.
#![allow(clippy::unwrap_used, reason = "all of it is tests")]

mod driver;

use driver::{Driver, TITLES};
use serde_json::Value;
use std::time::{Duration, Instant};
use turnstream_fake_provider::{
    Completion, CutBy, Ended, Fault, Provider, Refusal, Request, RetryAfter, Script, Step, WireFormat,
};
use turnstream_testkit::agents::{Claude, Codex, Opencode, living};

const SOON: Duration = Duration::from_secs(400);
const ANSWER: &str = "Hello from the script, in more than one delta.";

/// A provider for one conversation, titles aside.
async fn provider(steps: impl IntoIterator<Item = Step>) -> Provider {
    let titles = Step::text("A title").for_model(TITLES).always();
    Provider::start(Script::new([titles].into_iter().chain(steps))).await.unwrap()
}

/// The calls of the conversation, titles aside, once this many have ended.
async fn calls(provider: &Provider, count: usize) -> Vec<Request> {
    let titles = provider.calls().iter().filter(|call| call.asked.model == TITLES).count();
    let all = provider.wait_for_ends(count + titles, SOON).await.unwrap();
    all.into_iter().filter(|call| call.asked.model != TITLES).collect()
}

async fn a_plain_turn<A: Driver>() {
    let provider = provider([Step::text(ANSWER)]).await;
    let mut agent = A::start(&provider).await;
    let answer = agent.turn("Say hello").await;

    assert_eq!(answer, ANSWER);
    let calls = calls(&provider, 1).await;
    let [call] = &calls[..] else { panic!("{} calls", calls.len()) };
    assert_eq!((call.format, call.status, call.ended), (Some(A::FORMAT), Some(200), Ended::Complete));
    assert!(call.asked.stream);
    assert!(call.asked.user_text.contains("Say hello"), "{:?}", call.asked.user_text);
    assert!(call.body["tools"].as_array().is_some_and(|tools| !tools.is_empty()));
}

async fn a_tool_turn<A: Driver>() {
    let tool = A::shell("printf 'made by a tool' > made.txt");
    let provider = provider([Step::new(Completion::of([tool])), Step::text(ANSWER)]).await;
    let mut agent = A::start(&provider).await;
    let answer = agent.turn("Make a file").await;

    assert_eq!(answer, ANSWER);
    let made = std::fs::read_to_string(agent.work().join("made.txt")).unwrap();
    assert_eq!(made, "made by a tool");
    let calls = calls(&provider, 2).await;
    let [first, second] = &calls[..] else { panic!("{} calls", calls.len()) };
    assert_eq!([first.step, second.step], [Some(1), Some(2)]);
    assert!(history(second).len() > history(first).len(), "the second call tells what the tool did");
}

/// A turn whose first call fails, and the calls it took.
async fn a_turn_that_recovers<A: Driver>(first: Step) -> Vec<Request> {
    let provider = provider([first, Step::text(ANSWER)]).await;
    let mut agent = A::start(&provider).await;
    assert_eq!(agent.turn("Say hello").await, ANSWER);
    let calls = calls(&provider, 2).await;
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[1].ended, Ended::Complete);
    assert_eq!(history(&calls[0]), history(&calls[1]), "the same question again");
    calls
}

async fn a_turn_that_survives_a_reset<A: Driver>() {
    let after = 700;
    let cut = Step::text("This never arrives whole.").fault(Fault::Cut { after, by: CutBy::Rst });
    let calls = a_turn_that_recovers::<A>(cut).await;
    assert_eq!((calls[0].written, calls[0].ended), (after, Ended::Cut(CutBy::Rst)));
}

async fn a_turn_that_waits_out_a_rate_limit<A: Driver>() {
    let busy = Refusal::new(429, "rate_limit_error", "Slow down").retry_after(RetryAfter::Seconds(1));
    let calls = a_turn_that_recovers::<A>(Step::new(busy)).await;
    assert_eq!(calls[0].status, Some(429));
    let waited = calls[1].at.duration_since(calls[0].at).unwrap();
    assert!(waited >= Duration::from_millis(900), "{waited:?}");
}

async fn a_drop_in_the_middle_of_a_tool<A: Driver>() {
    // The tool says that it runs, and which process it is.
    let tool = A::shell("echo $$ > pid.txt; exec sleep 300");
    let provider = provider([Step::new(Completion::of([tool]))]).await;
    let mut agent = A::start(&provider).await;
    agent.begin("Sleep for a while").await;
    let file = agent.work().join("pid.txt");
    let pid: i32 = within(SOON, || std::fs::read_to_string(&file).ok()?.trim().parse().ok()).await;
    let family = agent.family();
    assert!(family.iter().any(|process| process.id == pid), "{pid} is not in {family:?}");
    assert_eq!(living(&family).len(), family.len());

    let start = Instant::now();
    drop(agent);
    assert_eq!(living(&family), [], "of {family:?}");
    assert!(start.elapsed() < Duration::from_secs(200), "{:?}", start.elapsed());
    assert!(!file.exists(), "its directory is gone as well");
}

fn history(call: &Request) -> Vec<Value> {
    let member = match call.format.unwrap() {
        WireFormat::Chat | WireFormat::Messages => "messages",
        WireFormat::Responses => "input",
    };
    call.body[member].as_array().unwrap().clone()
}

async fn within<T>(deadline: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < deadline, "nothing within {deadline:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_says_what_the_script_says_and_ends_its_turn() {
    a_plain_turn::<Claude>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_says_what_the_script_says_and_ends_its_turn() {
    a_plain_turn::<Codex>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_says_what_the_script_says_and_ends_its_turn() {
    a_plain_turn::<Opencode>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_runs_a_scripted_tool_call_and_asks_again() {
    a_tool_turn::<Claude>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_runs_a_scripted_tool_call_and_asks_again() {
    a_tool_turn::<Codex>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_runs_a_scripted_tool_call_and_asks_again() {
    a_tool_turn::<Opencode>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_recovers_from_a_reset_in_mid_stream() {
    a_turn_that_survives_a_reset::<Claude>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_recovers_from_a_reset_in_mid_stream() {
    a_turn_that_survives_a_reset::<Codex>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_recovers_from_a_reset_in_mid_stream() {
    a_turn_that_survives_a_reset::<Opencode>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_waits_as_long_as_a_rate_limit_says() {
    a_turn_that_waits_out_a_rate_limit::<Claude>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_waits_as_long_as_a_rate_limit_says() {
    a_turn_that_waits_out_a_rate_limit::<Codex>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_waits_as_long_as_a_rate_limit_says() {
    a_turn_that_waits_out_a_rate_limit::<Opencode>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_claude_leaves_no_process_behind() {
    a_drop_in_the_middle_of_a_tool::<Claude>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_codex_leaves_no_process_behind() {
    a_drop_in_the_middle_of_a_tool::<Codex>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_opencode_leaves_no_process_behind() {
    a_drop_in_the_middle_of_a_tool::<Opencode>().await;
}
