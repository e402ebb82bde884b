//! The words in which an exit is described: what the model says, what a person does, what has to be seen.

/// One way in which turns come to their end, described once for all agents.
#[derive(Debug)]
pub(super) struct Exit {
    /// Its name on the page.
    pub(super) name: &'static str,
    /// What happens, for the page.
    pub(super) what: &'static str,
    pub(super) runs: Runs,
    pub(super) stage: StageNeeds,
    pub(super) permissions: Permissions,
    /// What the model answers, one entry for each call.
    pub(super) model: &'static [Says],
    /// What happens, in order. The last act waits for the last end.
    pub(super) acts: &'static [Act],
}

/// In which test runs an exit takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runs {
    Always,
    /// Only with `TURNSTREAM_FULL=1`.
    Full,
}

/// What an exit needs of the gateway it runs in. The stages come in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StageNeeds {
    /// Other exits may run at the same time.
    Shared,
    /// It stops or kills processes, so it runs alone.
    Alone,
    /// It waits for the limit of a silent turn, so it has a gateway with a short one.
    ShortInactivity,
}

/// The setting of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permissions {
    Ask,
    Allow,
}

/// What the model says in one call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Says {
    Text(&'static str),
    /// A text that takes several seconds.
    SlowText(&'static str),
    /// A text that stops in the middle. The connection stays open.
    StalledText(&'static str),
    Call(Tool),
    /// An answer without any content, as often as the agent asks.
    Nothing,
    /// An HTTP error that cannot be repeated.
    Refusal,
    /// An HTTP error that can be repeated after a second.
    Overload,
}

/// A tool, in the words that all agents share.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tool {
    /// Reads a file of the working directory.
    Read(&'static str),
    /// Replaces a text in a file of the working directory.
    Edit { file: &'static str, from: &'static str, to: &'static str },
    /// Runs a shell command.
    Shell(&'static str),
    /// Starts a shell command, or other work, and does not wait for it.
    Background(&'static str),
    /// Asks the person a question with these options.
    Question { text: &'static str, options: [&'static str; 2] },
}

/// One act of a client, or of somebody who kills processes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Prompt(&'static str),
    Until(Sign),
    Cancel,
    /// Allows what the agent asks for, once.
    Allow,
    Reject,
    /// Chooses this option of the open question.
    Answer(&'static str),
    /// Stops the agent with SIGSTOP.
    FreezeAgent,
    /// Continues it with SIGCONT.
    ThawAgent,
    /// SIGKILL to the agent.
    KillAgent,
    /// SIGKILL to the gateway, and then another one on the same data.
    KillGateway,
    /// Makes an empty file in the working directory.
    Touch(&'static str),
    /// Makes sure that the working directory does not have this file.
    Missing(&'static str),
}

/// Something that shows in the log or in the working directory, and stays there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sign {
    /// Some text of the model.
    Text,
    /// An open approval.
    Approval,
    /// An open question.
    Question,
    /// So many prompts have left for the agent.
    Sent(usize),
    /// The agent repeats a call to the model.
    Retrying,
    /// A replacement character in the result of a tool.
    HalfCharacter,
    /// A file in the working directory.
    File(&'static str),
    /// So many turns have ended, and nothing is open.
    Ended(usize),
}
