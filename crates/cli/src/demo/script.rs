//! What the fake provider answers, and which of its tool calls may be run.

use super::{Pace, Sabotage};
use serde_json::{Value, json};
use turnstream_fake_provider::{
    Arguments, Asked, Completion, Delivery, Fault, Part, Refusal, Reply, Request, RetryAfter, Script, Step,
    WireFormat, find_event,
};

/// The model that the agent asks for.
pub(super) const MODEL: &str = "demo-model";

/// The prompts, one for each scene. An answer is for the scene whose prompt came last.
pub(super) const PROMPTS: [&str; 4] = [
    "Correct the greeting in hello.txt.",
    "Remove drafts/old, and keep the other drafts.",
    "Explain what you did.",
    "Are you done?",
];

/// The arguments of a tool call up to the place of the splice. Run as they stand, they would remove all
/// drafts.
pub(super) const CUT_COMMAND: &str = "rm -r drafts";

/// An answer that pauses while the client's connection is cut.
const CORRECTED: &str = "The greeting is right now. It said \"Helo\": one letter was missing.";
/// An answer that stops, so that the gateway is killed before its end.
const EXPLAINED: &str = "One letter was missing. I added it, and removed what you named.";
/// Characters of these answers that come before the pause.
pub(super) const BEFORE_PAUSE: usize = 20;

/// A tool call: the name of the tool, and its arguments.
pub(super) type ToolCall = (String, Value);

/// An answer of the provider.
pub(super) struct Answer {
    pub(super) step: Step,
    /// Whether its tool calls may be run.
    may_run: bool,
}

/// The answers of all scenes.
pub(super) fn answers(pace: Pace, sabotage: Option<Sabotage>) -> Vec<Answer> {
    let delivery = Delivery { before_delta_ms: pace.delta_ms, ..Delivery::default() };
    let right = |scene: usize, parts: Vec<Part>| {
        let step = Step::new(Completion::of(parts)).delivered(delivery).for_user_text(PROMPTS[scene]);
        Answer { step, may_run: true }
    };
    let edit = json!({"path": "hello.txt", "old_text": "Helo", "new_text": "Hello"});
    let (corrected, explained) = (vec![Part::text(CORRECTED)], vec![Part::text(EXPLAINED)]);
    let limit = Refusal::new(429, "rate_limit_error", "Too many requests for this demo.")
        .retry_after(RetryAfter::Seconds(pace.limit));
    vec![
        right(0, vec![Part::text("I read it."), Part::tool_call("read", json!({"path": "hello.txt"}))]),
        right(0, vec![Part::tool_call("edit", edit)]),
        right(0, corrected).paused("is right", Some(pace.held_ms)),
        Answer { step: wrong(delivery, sabotage).for_user_text(PROMPTS[1]), may_run: false },
        right(1, vec![Part::tool_call("bash", json!({"command": format!("{CUT_COMMAND}/old")}))]),
        right(1, vec![Part::text("drafts/old is gone.")]),
        right(2, explained.clone()).paused("missing", None),
        right(2, explained),
        Answer { step: Step::new(limit).for_user_text(PROMPTS[3]), may_run: true },
        right(3, vec![Part::text("Yes, all of it is done.")]),
    ]
}

/// An answer whose tool call is cut, and another answer follows on the same stream. The sabotage makes it a
/// whole answer.
fn wrong(delivery: Delivery, sabotage: Option<Sabotage>) -> Step {
    let with_call = |last: &str| {
        let pieces = ["{\"command\":\"", CUT_COMMAND, last].map(str::to_owned);
        let arguments = Arguments::Given(pieces.to_vec());
        let call = Part::ToolCall { name: "bash".to_owned(), arguments, id: None };
        Completion::of([Part::text("I remove the old drafts."), call])
    };
    if sabotage == Some(Sabotage::Tool) {
        return Step::new(with_call("\"}")).delivered(delivery);
    }
    let whole = with_call("/old\"}");
    let step = Step::new(whole.clone()).delivered(delivery);
    match find_event(WireFormat::Chat, &step, &asked(), |event| event.contains(CUT_COMMAND)) {
        Some(place) => step.fault(Fault::Splice { after: place.end, second: whole }),
        // A test shows that the event is there.
        None => step,
    }
}

impl Answer {
    /// Pauses after the piece with this text. Without a time it lasts until the client leaves.
    fn paused(mut self, text: &str, lasts_ms: Option<u64>) -> Self {
        if let Some(place) = find_event(WireFormat::Chat, &self.step, &asked(), |event| event.contains(text))
        {
            let pause = Fault::Stall { after: place.end, lasts_ms, comment_every_ms: None };
            self.step = self.step.fault(pause);
        }
        self
    }
}

/// What the built-in agent asks for, as far as an answer depends on it.
fn asked() -> Asked {
    Asked { model: MODEL.to_owned(), stream: true, include_usage: true, ..Asked::default() }
}

/// The provider's script.
pub(super) fn script(answers: &[Answer]) -> Script {
    Script {
        steps: answers.iter().map(|answer| answer.step.clone()).collect(),
        models: vec![MODEL.to_owned()],
        created: None,
    }
}

/// The tool calls of the answers that these requests got, as far as they may be run.
pub(super) fn runnable_calls(answers: &[Answer], requests: &[Request]) -> Vec<ToolCall> {
    let given = requests.iter().filter_map(|request| answers.get(request.step?));
    let given = given.filter(|answer| answer.may_run);
    given.flat_map(|answer| calls(&answer.step.reply)).collect()
}

fn calls(reply: &Reply) -> Vec<ToolCall> {
    let Reply::Completion(completion) = reply else { return Vec::new() };
    let calls = completion.parts.iter().filter_map(|part| match part {
        Part::ToolCall { name, arguments, .. } => {
            Some((name.clone(), serde_json::from_str(&arguments.deltas().concat()).unwrap_or_default()))
        }
        Part::Text { .. } | Part::Reasoning { .. } => None,
    });
    calls.collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Pace, Sabotage};
    use super::{BEFORE_PAUSE, CORRECTED, CUT_COMMAND, EXPLAINED, answers, asked};
    use turnstream_fake_provider::{Chunk, Identity, WireFormat, render};

    #[test]
    fn the_splice_is_behind_the_dangerous_part_of_the_call() {
        let answers = answers(Pace::UNWATCHED, None);
        let identity = Identity { serial: 7, created: 1_794_771_700, asked: asked() };
        let spliced = render(WireFormat::Chat, &answers[3].step, &identity).unwrap();
        let body = String::from_utf8(spliced.body()).unwrap();
        let cut = body.find(CUT_COMMAND).unwrap();
        let next = body[cut..].split("\n\n").nth(1).unwrap();
        assert!(next.starts_with("data: ") && next.contains("\"role\":\"assistant\""), "{next}");
    }

    #[test]
    fn only_whole_answers_have_calls_that_may_be_run() {
        for sabotage in [None, Some(Sabotage::Tool)] {
            let answers = answers(Pace::UNWATCHED, sabotage);
            let may_run: Vec<bool> = answers.iter().map(|answer| answer.may_run).collect();
            assert_eq!(may_run, [true, true, true, false, true, true, true, true, true, true]);
        }
    }

    #[test]
    fn two_answers_pause_after_some_of_their_text() {
        let answers = answers(Pace::UNWATCHED, None);
        for (place, text) in [(2, CORRECTED), (6, EXPLAINED)] {
            let identity = Identity { serial: 7, created: 1_794_771_700, asked: asked() };
            let answer = render(WireFormat::Chat, &answers[place].step, &identity).unwrap();
            let before = answer.chunks.iter().take_while(|chunk| matches!(chunk, Chunk::Write { .. }));
            let before: Vec<&[u8]> = before.filter_map(Chunk::bytes).collect();
            let before = String::from_utf8(before.concat()).unwrap();
            let deltas = before.split("\"content\":\"").skip(1).map(|rest| rest.split("\"}").next().unwrap());
            let said = deltas.collect::<String>();
            assert!(
                text.starts_with(&said) && said.len() >= BEFORE_PAUSE && said.len() < text.len(),
                "{said}"
            );
        }
    }
}
