//! The exits: every way in which a turn ends, as data.

use super::exit::Act::{
    Allow, Answer, Cancel, FreezeAgent, KillAgent, KillGateway, Missing, Prompt, Reject, ThawAgent, Touch,
    Until,
};
use super::exit::{Exit, Permissions, Runs, Says, Sign, StageNeeds, Tool};

/// The file that every working directory has.
pub(super) const README: &str = "# Demo\n\nFirst line.\n";
/// A line that tools cut after 2,000 UTF-16 units, which is inside of an emoji.
pub(super) fn emoji() -> String {
    format!("a{}\n", "\u{1F600}".repeat(1_500))
}

const DONE: Says = Says::Text("All of it is done.");
const LONG: &str = "This answer takes its time, word by word, so that something can happen in the middle of it, \
                    and so that it can be compared with what the agent itself has stored of it in the end.";
const READ: Tool = Tool::Read("README.md");
const EDIT: Tool = Tool::Edit { file: "README.md", from: "First line.", to: "Second line." };
const TOUCH: Tool = Tool::Shell("touch touched.txt");
/// Says that it runs, and goes on for longer than anybody waits.
const SLEEP: Tool = Tool::Shell("touch begun.txt; sleep 600");
const TEA: Tool = Tool::Question { text: "Tea or coffee?", options: ["Tea", "Coffee"] };

/// The usual exit: a prompt, and its end.
const NORMAL: Exit = Exit {
    name: "normal",
    what: "The model answers with a text.",
    runs: Runs::Always,
    stage: StageNeeds::Shared,
    permissions: Permissions::Allow,
    model: &[DONE],
    acts: &[Prompt("Go on."), Until(Sign::Ended(1))],
};

/// All exits, in the order of the page.
///
/// Those that always run differ most in what they need of an adapter. They are the plain end, an end after
/// several calls, a refused tool, an error of the provider, and a command that has to be stopped. Then the
/// death of either side, a turn that nobody asked for, and text that is no Unicode. The others vary these.
pub(super) const EXITS: &[Exit] = &[
    NORMAL,
    Exit {
        name: "multi-step tools",
        what: "The model reads a file, edits it, and answers.",
        model: &[Says::Call(READ), Says::Call(EDIT), DONE],
        ..NORMAL
    },
    Exit {
        name: "permission allow",
        what: "A command needs a permission, and a client allows it once.",
        runs: Runs::Full,
        permissions: Permissions::Ask,
        model: &[Says::Call(TOUCH), DONE],
        acts: &[
            Prompt("Go on."),
            Until(Sign::Approval),
            Allow,
            Until(Sign::File("touched.txt")),
            Until(Sign::Ended(1)),
        ],
        ..NORMAL
    },
    Exit {
        name: "permission reject",
        what: "A command needs a permission, and a client rejects it.",
        permissions: Permissions::Ask,
        model: &[Says::Call(TOUCH), DONE],
        acts: &[
            Prompt("Go on."),
            Until(Sign::Approval),
            Reject,
            Until(Sign::Ended(1)),
            Missing("touched.txt"),
        ],
        ..NORMAL
    },
    Exit {
        name: "question",
        what: "The model asks a question, and a client answers it.",
        runs: Runs::Full,
        permissions: Permissions::Ask,
        model: &[Says::Call(TEA), DONE],
        acts: &[Prompt("Go on."), Until(Sign::Question), Answer("Tea"), Until(Sign::Ended(1))],
        ..NORMAL
    },
    Exit {
        name: "provider error",
        what: "The provider refuses the request with status 400.",
        model: &[Says::Refusal],
        ..NORMAL
    },
    Exit {
        name: "retry then success",
        what: "The provider is overloaded once (status 529). The agent repeats the call.",
        runs: Runs::Full,
        model: &[Says::Overload, DONE],
        acts: &[Prompt("Go on."), Until(Sign::Retrying), Until(Sign::Ended(1))],
        ..NORMAL
    },
    Exit {
        name: "empty answer",
        what: "The model answers with nothing.",
        runs: Runs::Full,
        model: &[Says::Nothing],
        ..NORMAL
    },
    Exit {
        name: "cancel before start",
        what: "After one turn the agent is frozen (SIGSTOP). A client sends a prompt and cancels it. Then the \
               agent continues.",
        runs: Runs::Full,
        stage: StageNeeds::Alone,
        model: &[DONE, Says::StalledText(LONG)],
        acts: &[
            Prompt("Go on."),
            Until(Sign::Ended(1)),
            FreezeAgent,
            Prompt("Go on once more."),
            Until(Sign::Sent(2)),
            Cancel,
            ThawAgent,
            Until(Sign::Ended(2)),
        ],
        ..NORMAL
    },
    Exit {
        name: "cancel mid-text",
        what: "A client cancels while the model writes.",
        runs: Runs::Full,
        model: &[Says::StalledText(LONG)],
        acts: &[Prompt("Go on."), Until(Sign::Text), Cancel, Until(Sign::Ended(1))],
        ..NORMAL
    },
    Exit {
        name: "cancel mid-tool",
        what: "A client cancels while a command runs.",
        model: &[Says::Call(SLEEP), DONE],
        acts: &[Prompt("Go on."), Until(Sign::File("begun.txt")), Cancel, Until(Sign::Ended(1))],
        ..NORMAL
    },
    Exit {
        name: "agent killed",
        what: "The agent is killed (SIGKILL) while the model writes. Then a client sends another prompt.",
        stage: StageNeeds::Alone,
        model: &[Says::StalledText(LONG), DONE],
        acts: &[
            Prompt("Go on."),
            Until(Sign::Text),
            KillAgent,
            Until(Sign::Ended(1)),
            Prompt("Go on once more."),
            Until(Sign::Ended(2)),
        ],
        ..NORMAL
    },
    Exit {
        name: "gateway killed",
        what: "The gateway is killed (SIGKILL) while the model writes, and started again.",
        stage: StageNeeds::Alone,
        // The built-in agent asks once more.
        model: &[Says::SlowText(LONG), Says::SlowText(LONG)],
        acts: &[Prompt("Go on."), Until(Sign::Text), KillGateway, Until(Sign::Ended(1))],
        ..NORMAL
    },
    Exit {
        name: "stall",
        what: "The model stops in the middle of a text, for longer than `inactivity` allows.",
        runs: Runs::Full,
        stage: StageNeeds::ShortInactivity,
        model: &[Says::StalledText(LONG)],
        ..NORMAL
    },
    Exit {
        name: "prompt while running",
        what: "A client sends a second prompt while the model writes.",
        runs: Runs::Full,
        model: &[Says::SlowText(LONG), DONE],
        acts: &[Prompt("Go on."), Until(Sign::Text), Prompt("Go on once more."), Until(Sign::Ended(2))],
        ..NORMAL
    },
    Exit {
        name: "background wake-up",
        what: "A command, with opencode a subagent, runs in the background. It ends after the turn, and wakes \
               the agent.",
        model: &[
            Says::Call(Tool::Background("until [ -e go.txt ]; do sleep 0.1; done; echo done")),
            DONE,
            DONE,
        ],
        acts: &[Prompt("Go on."), Until(Sign::Ended(1)), Touch("go.txt"), Until(Sign::Ended(2))],
        ..NORMAL
    },
    Exit {
        name: "half an emoji in a tool's result",
        what: "A tool cuts a text inside of a surrogate pair.",
        model: &[
            Says::Call(Tool::Read("emoji.txt")),
            Says::Call(Tool::Shell("for i in $(seq 1 60); do cat emoji.txt; done")),
            DONE,
        ],
        acts: &[Prompt("Go on."), Until(Sign::HalfCharacter), Until(Sign::Ended(1))],
        ..NORMAL
    },
];
