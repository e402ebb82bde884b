//! Correct streams for the tests to damage, rendered in the three formats.

use serde_json::json;
use turnstream_fake_provider::{
    Arguments, Asked, Completion, Finish, Identity, Part, Step, Usage, WireFormat, render,
};
use turnstream_llm::{Format, Profile};

/// The start of the first completion of a pair. The second is 71 s later, the smallest distance in
/// published samples.
const CREATED: u64 = 1_794_700_000;

/// A stream as its events.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) format: Format,
    pub(crate) profile: Profile,
    pub(crate) events: Vec<Vec<u8>>,
}

/// Two completions of the same request.
pub(crate) struct Pair {
    pub(crate) first: Stream,
    pub(crate) second: Stream,
}

impl Stream {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.events.concat()
    }

    /// The same with every event changed.
    pub(crate) fn map(&self, name: &str, change: impl Fn(&str) -> String) -> Self {
        let change =
            |event: &Vec<u8>| change(std::str::from_utf8(event).expect("rendered text")).into_bytes();
        let name = format!("{} {name}", self.name);
        Self { name, events: self.events.iter().map(change).collect(), ..self.clone() }
    }
}

pub(crate) fn wire(format: Format) -> WireFormat {
    match format {
        Format::Chat => WireFormat::Chat,
        Format::Responses => WireFormat::Responses,
        Format::Messages => WireFormat::Messages,
    }
}

/// The first answer to a request, or the second one for a replayed POST.
pub(crate) fn stream(format: Format, name: &str, completion: &Completion, replayed: bool) -> Stream {
    let asked = Asked {
        model: "scripted-1".to_owned(),
        stream: true,
        include_usage: true,
        user_text: "go on".to_owned(),
        ..Asked::default()
    };
    let (serial, created) = if replayed { (!7, CREATED + 71) } else { (7, CREATED) };
    let identity = Identity { serial, created, asked };
    let answer = render(wire(format), &Step::new(completion.clone()), &identity).expect("a plain completion");
    let events = answer.chunks.iter().filter_map(|chunk| chunk.bytes()).map(<[u8]>::to_vec).collect();
    let name = format!("{} {name}", format.name());
    Stream { name, format, profile: Profile::UNKNOWN, events }
}

/// Reasoning, text and two calls, with text that a careless decoder takes for framing.
pub(crate) fn rich() -> Completion {
    let mut completion = Completion::of([
        Part::reasoning(
            "Two files. \"data:{\" is only text, and so is\n\nevent: message_start\n\n– über 那 🦀.",
        ),
        Part::text(
            "I read both:\ndata: {\"id\":\"chatcmpl-x\",\"choices\":[]}\n\n[DONE]\nand then 那 write.",
        ),
        Part::tool_call("read", json!({"limit": 10, "path": "/srv/那/notes \"old\".txt"})),
        Part::tool_call("write", json!({"path": "/srv/a", "text": "data: {\"a\":1}\n\ndata: [DONE]\n\n"})),
    ]);
    completion.usage = Usage { input: 120, cached: 40, output: 33, reasoning: 12 };
    completion
}

/// The model's second answer, similar enough that a mixture would look right.
pub(crate) fn rich_again() -> Completion {
    Completion::of([
        Part::reasoning("Let me look at the two files again 那."),
        Part::text("I read the first one:\nthen the second 🦀."),
        Part::tool_call("read", json!({"limit": 99, "path": "/srv/那/other.txt"})),
        Part::tool_call("delete", json!({"force": true, "path": "/srv/b"})),
    ])
}

/// One call whose arguments stay valid JSON when any middle delta is lost.
pub(crate) fn dangerous() -> Completion {
    let deltas = ["{\"command\":\"rm -rf ", "/tmp/build", "/cache", "/old", "\"}"];
    let arguments = Arguments::Given(deltas.map(str::to_owned).to_vec());
    Completion::of([Part::ToolCall { name: "bash".to_owned(), arguments, id: None }])
}

pub(crate) fn dangerous_again() -> Completion {
    let deltas = ["{\"command\":\"rm -rf ", "/tmp/other", "\"}"];
    let arguments = Arguments::Given(deltas.map(str::to_owned).to_vec());
    Completion::of([Part::ToolCall { name: "bash".to_owned(), arguments, id: None }])
}

pub(crate) fn prose() -> Completion {
    Completion::text("The build is green; nothing is left to do. 那 🦀 über.")
}

pub(crate) fn prose_again() -> Completion {
    Completion::text("All tests pass and the build is green, so I stop here.")
}

/// A step without text that ran out of tokens in its second call.
pub(crate) fn cut_short() -> Completion {
    Completion::of([
        Part::tool_call("read", json!({"path": "/srv/a"})),
        Part::tool_call("read", json!({"path": "/srv/b"})),
    ])
    .finished(Finish::Length)
}

pub(crate) fn completions() -> [(&'static str, Completion, Completion); 4] {
    [
        ("rich", rich(), rich_again()),
        ("dangerous", dangerous(), dangerous_again()),
        ("prose", prose(), prose_again()),
        ("mixed", prose(), dangerous_again()),
    ]
}

/// Every pair in every format, and chat also without some identifying members.
pub(crate) fn pairs() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for format in Format::ALL {
        for (name, first, second) in completions() {
            let first = stream(format, name, &first, false);
            let second = stream(format, name, &second, true);
            if format == Format::Chat {
                for lacking in [Lacking::Ids, Lacking::IdsAndTimes] {
                    pairs.push(Pair { first: lacking.of(&first), second: lacking.of(&second) });
                }
                let sure = |stream: &Stream| Stream { profile: Profile::OPENAI, ..stream.clone() };
                pairs.push(Pair { first: sure(&first), second: sure(&second) });
            }
            pairs.push(Pair { first, second });
        }
    }
    pairs
}

/// What a chat provider leaves out.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lacking {
    /// The id.
    Ids,
    /// The id and the time: the role of the opening chunk is all there is.
    IdsAndTimes,
}

impl Lacking {
    pub(crate) fn of(self, stream: &Stream) -> Stream {
        let without = |event: &str, begin: &str, end: &str| match event.split_once(begin) {
            Some((before, rest)) => {
                let (_, after) = rest.split_once(end).expect("a member has an end");
                format!("{before}{after}")
            }
            None => event.to_owned(),
        };
        let ids = |event: &str| without(event, "\"id\":\"chatcmpl-", "\",");
        match self {
            Self::Ids => stream.map("without ids", ids),
            Self::IdsAndTimes => {
                stream.map("without ids and times", |event| without(&ids(event), "\"created\":", ","))
            }
        }
    }
}
