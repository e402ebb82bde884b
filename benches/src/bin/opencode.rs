//! A turn of opencode on one core: the bytes of its event stream through the SSE decoder, the translator, the
//! turn machine and the ACP encoder, to JSON. It measures CPU time of the thread, so that other load on the
//! machine matters less.

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use turnstream_benches::{Bars, print_table};
use turnstream_dialects::acp::Encoder;
use turnstream_model::event::Permissions;
use turnstream_model::time::Time;
use turnstream_opencode_client::Event;
use turnstream_opencode_client::conversation::{Answer, Budget, Call, Conversation, Pace, PromptAnswer};
use turnstream_opencode_client::standalone::StandaloneConversation;
use turnstream_sse::{Decoder, Frame};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 9;
const DELTAS: usize = 20_000;
const MANY: usize = 200_000;
/// As a socket hands them out.
const READ: usize = 16 * 1024;
const NOW: Time = Time(1_794_770_000_000);

/// A recorded turn (capture `o-long-text`) whose deltas are repeated until there are so many.
struct Recording {
    session: String,
    prompt: String,
    bytes: Vec<u8>,
    events: usize,
}

fn main() -> ExitCode {
    let recordings = [Recording::new(DELTAS), Recording::new(MANY)];
    let mut bests = [Duration::MAX; 2];
    let mut written = [0; 2];
    for _ in 0..ROUNDS {
        for (place, recording) in recordings.iter().enumerate() {
            let began = cpu();
            written[place] = std::hint::black_box(through_everything(recording));
            bests[place] = bests[place].min(cpu() - began);
        }
    }
    let per_event = |place: usize| bests[place].as_secs_f64() * 1e6 / recordings[place].events as f64;
    let mut rows =
        vec![["what", "events", "MB in", "MB out", "us CPU per event"].map(str::to_owned).to_vec()];
    for (place, recording) in recordings.iter().enumerate() {
        rows.push(vec![
            format!("{} deltas in one part", [DELTAS, MANY][place]),
            recording.events.to_string(),
            format!("{:.1}", recording.bytes.len() as f64 / 1e6),
            format!("{:.1}", written[place] as f64 / 1e6),
            format!("{:.2}", per_event(place)),
        ]);
    }
    println!(
        "SSE, translator, turn machine, ACP encoder, JSON; best of {ROUNDS} interleaved runs on one thread.\n"
    );
    print_table(&rows);
    println!();
    let mut bars = Bars::default();
    let short = per_event(0);
    bars.check("at most 1.5 us CPU per event", short <= 1.5, &format!("{short:.2} us"));
    let growth = per_event(1) / short;
    // Within what two runs of the same code differ by on a shared machine.
    bars.check(
        "no growth per event up to 200,000 deltas in one part",
        growth <= 1.15,
        &format!("{growth:.2}x"),
    );
    bars.exit_code()
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Recording {
    fn new(deltas: usize) -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/opencode/o-long-text.sse");
        let captured = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let events: Vec<Value> = captured
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap_or_else(|error| panic!("{path}: {error}")))
            .collect();
        let is_delta = |event: &&Value| event["type"] == "message.part.delta";
        let recorded: Vec<&Value> = events.iter().filter(is_delta).collect();
        // Deltas of a real model are tokens; those of the capture are 400 bytes long.
        let token = |index: usize| {
            let mut delta = recorded[index % recorded.len()].clone();
            let text = delta["properties"]["delta"].as_str().unwrap_or_default();
            let short: String = text.chars().skip(index % 50).take(12).collect();
            delta["properties"]["delta"] = json!(short);
            delta
        };
        let (mut bytes, mut count, mut whole) = (Vec::new(), 0, String::new());
        let mut put = |event: &Value| {
            bytes.extend_from_slice(format!("data: {event}\n\n").as_bytes());
            count += 1;
        };
        let mut streamed = false;
        for event in &events {
            if is_delta(&event) {
                if !std::mem::replace(&mut streamed, true) {
                    for index in 0..deltas {
                        let delta = token(index);
                        whole.push_str(delta["properties"]["delta"].as_str().unwrap_or_default());
                        put(&delta);
                    }
                }
                continue;
            }
            let mut event = event.clone();
            if event["properties"]["part"]["text"].as_str().is_some_and(|text| streamed && text.len() > 1_000)
            {
                event["properties"]["part"]["text"] = json!(whole);
            }
            put(&event);
        }
        let part = |event: &&Value| event["type"] == "message.part.updated";
        let prompted = &events.iter().find(part).unwrap_or(&Value::Null)["properties"]["part"];
        let text = |member: &str| prompted[member].as_str().unwrap_or_default().to_owned();
        Self { session: text("sessionID"), prompt: text("messageID"), bytes, events: count }
    }
}

/// Returns how many bytes of JSON came out.
fn through_everything(recording: &Recording) -> usize {
    let conversation = Conversation::new(&recording.session, Pace::default(), Budget::default(), NOW);
    let mut standalone =
        StandaloneConversation::new(conversation, &recording.session, "/workspace", Permissions::Ask, NOW);
    standalone.connected(None, NOW);
    let content = vec![json!({"type": "text", "text": "Write a very long text"})];
    standalone.prompt(recording.prompt.clone(), content, NOW).expect("a new conversation takes a prompt");
    let (mut decoder, mut encoder) = (Decoder::new(), Encoder::new());
    let (mut out, mut json, mut written, mut ended) = (Vec::new(), Vec::new(), 0, false);
    for piece in recording.bytes.chunks(READ) {
        let mut frames = decoder.feed(piece);
        while let Some(frame) = frames.next_frame() {
            let Frame::Event(frame) = frame else { continue };
            let event = Event::parse(frame.data.bytes()).expect("a captured event is one");
            standalone.event(&Arc::new(event), NOW);
            while let Some(call) = standalone.next_call() {
                let Call::Prompt { message, .. } = call else { panic!("{call:?}") };
                standalone.answer(Answer::Prompt(message, PromptAnswer::Accepted), NOW);
            }
            while let Some(event) = standalone.take_event() {
                encoder.encode(&event, &mut out);
            }
            for event in out.drain(..) {
                json.clear();
                ended |= event.is_terminator();
                event.write_json(&recording.session, &mut json);
                written += json.len();
            }
        }
    }
    assert!(ended, "the turn ended");
    written
}
