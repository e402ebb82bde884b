//! Commands that go on after their turn, and what they have printed. The server's messages are those of
//! captures; the output is changed where no capture has what is tested.

use super::commands::{PROMPT, opened, places};
use super::playback::Desk;
use serde_json::{Value, json};
use turnstream_model::fold::{Item, ItemStage};
use turnstream_model::time::Time;
use turnstream_testkit::lawful::Tail;

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// A capture with one command.
struct Commanded {
    desk: Desk,
    messages: Vec<Value>,
    begin: usize,
    piece: usize,
    end: usize,
    turn_end: usize,
}

impl Commanded {
    fn of(name: &str) -> Self {
        let (mut desk, messages) = opened(name);
        desk.say(PROMPT, "Run it");
        let command = |method: &str| {
            let is_command = |at: &usize| messages[*at]["params"]["item"]["type"] == "commandExecution";
            places(&messages, method).into_iter().find(is_command).unwrap()
        };
        let (begin, end) = (command("item/started"), command("item/completed"));
        let piece = places(&messages, "item/commandExecution/outputDelta")[0];
        let turn_end = places(&messages, "turn/completed")[0];
        Self { desk, messages, begin, piece, end, turn_end }
    }

    /// Codex cuts a character in its deltas (`outputDelta`), and has the whole output at the end.
    fn with_cut_character(mut self) -> Self {
        self.messages[self.piece]["params"]["delta"] = json!("line \u{fffd}");
        self.messages[self.end]["params"]["item"]["aggregatedOutput"] = json!("line é\n");
        self
    }

    fn play(&mut self, places: &[usize]) {
        places.iter().for_each(|at| self.desk.lines(&self.messages[*at..=*at]));
    }

    fn commands(&self) -> Vec<Item> {
        self.desk.state().items.into_iter().filter(|item| item.tool.is_some()).collect()
    }

    /// What is shown of the output, and the output in the result.
    fn output(&self) -> [Option<String>; 2] {
        let item = self.commands().pop().unwrap();
        let content = item.tool.as_ref().and_then(|tool| tool.content.as_ref());
        let result = content.and_then(|content| content[0]["content"]["text"].as_str());
        [item.output, result.map(str::to_owned)]
    }
}

#[test]
fn the_finished_output_replaces_pieces_with_cut_characters() {
    let mut commanded = Commanded::of("c_long_command_output").with_cut_character();
    let Commanded { begin, piece, end, turn_end, .. } = commanded;
    commanded.play(&[begin, piece]);
    assert_eq!(commanded.output(), [some("line \u{fffd}"), None]);
    commanded.play(&[end, turn_end]);
    assert_eq!(commanded.output(), [some("line é\n"), some("line é\n")]);
}

#[test]
fn the_result_of_a_command_that_ends_after_its_turn_is_whole() {
    let mut commanded = Commanded::of("m_background_terminal").with_cut_character();
    let Commanded { begin, piece, end, turn_end, .. } = commanded;
    commanded.play(&[begin, piece, turn_end]);
    assert_eq!(commanded.output(), [some("line \u{fffd}"), None]);
    commanded.play(&[end]);
    // A revision has no output of its own, so the pieces stay as they were beside its result.
    assert_eq!(commanded.output(), [some("line \u{fffd}"), some("line é\n")]);
    assert_eq!(commanded.commands()[0].state, ItemStage::Completed);
    commanded.desk.assert_lawful(Tail::Settled);
}

#[test]
fn a_late_result_belongs_to_the_last_command_with_its_id() {
    let mut commanded = Commanded::of("m_background_terminal");
    let Commanded { begin, end, turn_end, .. } = commanded;
    commanded.play(&[begin, end]);
    for at in [begin, end] {
        let started = commanded.messages[end]["emittedAtMs"].clone();
        commanded.messages[at]["params"]["item"]["startedAtMs"] = started;
    }
    commanded.play(&[begin, turn_end]);
    let states = |commanded: &Commanded| -> Vec<ItemStage> {
        commanded.commands().iter().map(|item| item.state).collect()
    };
    assert_eq!(states(&commanded), [ItemStage::Completed, ItemStage::Unknown]);
    commanded.play(&[end]);
    assert_eq!(states(&commanded), [ItemStage::Completed, ItemStage::Completed]);
}

/// Its end may have been missed, so nobody waits for it. If it comes, it is shown.
#[test]
fn a_lost_connection_ends_the_wait_for_a_command_of_an_ended_turn() {
    let mut commanded = Commanded::of("m_background_terminal");
    let Commanded { begin, end, turn_end, .. } = commanded;
    commanded.play(&[begin, turn_end]);
    assert!(commanded.desk.conversation.works_in_background());
    let now = Time(commanded.desk.now);
    commanded.desk.conversation.disconnected("it was cut", now);
    assert!(!commanded.desk.conversation.works_in_background());
    commanded.play(&[end]);
    assert_eq!(commanded.commands()[0].state, ItemStage::Completed);
}
