//! Many streams at once, with faults from a fixed seed.

use crate::harness::{FORMATS, Gateway, events, request, route};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::JoinSet;
use turnstream_fake_provider::{
    Bytes, Completion, CutBy, Fault, Part, Provider, Raw, Refusal, Reply, Script, Step, WireFormat,
};
use turnstream_llm::{Item, StreamEnd};

const STREAMS: u32 = 500;

/// The text and the arguments of the call of an answer.
fn expected(number: u32) -> (Option<String>, Option<Value>) {
    let call = json!({"number": number, "text": "some arguments of a call"});
    match number % 3 {
        0 => (Some(format!("The answer {number} has only text.")), None),
        1 => (None, Some(call)),
        _ => (Some(format!("Text {number}.")), Some(call)),
    }
}

fn answer(number: u32) -> Completion {
    let (text, call) = expected(number);
    let call = call.map(|arguments| Part::tool_call("run", arguments));
    Completion::of(text.map(|text| Part::text(&text)).into_iter().chain(call))
}

/// The steps for one request: perhaps a fault, and then a sound answer.
fn steps(number: u32, wire: WireFormat, rng: &mut fastrand::Rng) -> Vec<Step> {
    let marker = format!("<{number}>");
    let sound = Step::new(answer(number)).for_user_text(&marker).for_format(wire).always();
    let faulty = Step { times: Default::default(), ..sound.clone() };
    let length: usize = events(wire, &faulty).iter().map(Vec::len).sum();
    let after = rng.usize(1..length);
    let refusal = |status, kind: &str| {
        Step::new(Refusal::new(status, kind, "no")).for_user_text(&marker).for_format(wire)
    };
    let page = Raw {
        status: 200,
        content_type: "text/html".to_owned(),
        body: Bytes::Text("<html>down for maintenance</html>".to_owned()),
    };
    let first = match rng.u8(0..8) {
        0 => return vec![sound],
        1 => refusal(500, "server_error"),
        5 => refusal(503, "overloaded_error"),
        6 => Step::new(Reply::Raw(page)).for_user_text(&marker).for_format(wire),
        2 => faulty.fault(Fault::Cut { after, by: CutBy::Fin }),
        3 => faulty.fault(Fault::Cut { after, by: CutBy::Rst }),
        _ => faulty.fault(Fault::Splice { after, second: answer(number + 1) }),
    };
    vec![first, sound]
}

fn text(item: &Item) -> Option<String> {
    match item {
        Item::Message { text, .. } => Some(text.clone()),
        Item::Reasoning { .. } | Item::Call(_) | Item::Other { .. } => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_streams_with_faults_each_end_correctly() {
    let mut rng = fastrand::Rng::with_seed(18);
    let mut streams = JoinSet::new();
    let mut providers = Vec::new();
    for (at, (format, wire)) in FORMATS.into_iter().enumerate() {
        let numbers = (0..STREAMS).filter(|number| *number as usize % FORMATS.len() == at);
        let numbers: Vec<u32> = numbers.collect();
        let script = numbers.iter().flat_map(|number| steps(*number, wire, &mut rng));
        let provider = Provider::start(Script::new(script)).await.unwrap();
        let gateway = Arc::new(Gateway::of(route(format, &provider)).await);
        providers.push(provider);
        // All of them run at the same time, of all formats.
        for number in numbers {
            let gateway = gateway.clone();
            streams.spawn(async move {
                let got = gateway.ask(format, &request(format, &format!("<{number}>"))).await;
                (number, format, got)
            });
        }
    }
    assert_eq!(streams.len(), STREAMS as usize);
    let (mut complete, mut broken) = (0, 0);
    while let Some(ended) = streams.join_next().await {
        let (number, format, got) = ended.unwrap();
        let outcome = got.outcome(format);
        if outcome.ended == StreamEnd::Complete {
            complete += 1;
            let texts: Vec<_> = outcome.committed.iter().filter_map(text).collect();
            let calls = outcome.runnable();
            let calls: Vec<Value> =
                calls.iter().map(|call| serde_json::from_str(&call.arguments).unwrap()).collect();
            let (wanted_text, wanted_call) = expected(number);
            let wanted = (Vec::from_iter(wanted_text), Vec::from_iter(wanted_call));
            assert_eq!((texts, calls), wanted, "{number}: {}", got.text());
        } else {
            broken += 1;
            got.assert_broken(format, &format!("stream {number}"));
        }
    }
    println!("complete {complete}, broken {broken}");
    assert!(complete > broken, "{complete} complete, {broken} broken");
}
