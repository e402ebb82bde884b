//! Claude Code's own transcript of a session, a file with one JSON object per line. It tells how the work
//! ended that was open when the gateway was killed.
//!
//! - A prompt is a `user` line under the uuid it was sent with. 2.1.197 stores a local command such as
//!   `/compact` under another one, so it is found by its time.
//! - A message has one line per block, with its final stop reason and usage.
//! - There is no line for the end of a turn. The last line of its work shows the end.
//! - A subagent has a file of its own, with the same lines. Its calls name the one that started it.
//! - 2.1.325 stores its totals when it ends by itself.
//! - The files are written with a delay: a killed process may have worked without a trace.

use super::conversation::{Conversation, StoredStep, StoredTurn};
use super::files::{GivenPrompt, StoredSession};
use super::stored_line::StoredLine;
use std::collections::{HashMap, HashSet};
use turnstream_adapter::{Fate, Observed, OpenWork};
use turnstream_model::event::Usage;
use turnstream_model::id::Key;
use turnstream_model::signal::{ProbedStatus, Signal};

/// How the process that wrote a transcript has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessEnd {
    /// By itself: everything it did is in the file.
    Orderly,
    /// It was killed, or nobody knows: the last lines may be missing.
    Unknown,
}

/// What a session has stored of its conversation.
pub(super) struct Transcript<'a> {
    /// The lines of the session itself and of its subagents, in the order of time.
    lines: Vec<StoredLine>,
    /// The whole file.
    text: &'a [u8],
    /// The last prompt that a process was given.
    given: Option<GivenPrompt>,
}

impl<'a> Transcript<'a> {
    /// Reads what a session has stored. Lines that cannot be read, such as a cut last one, are skipped.
    pub(super) fn parse(stored: &'a StoredSession, given: Option<GivenPrompt>) -> Self {
        let mut seen = HashSet::new();
        let main: Vec<StoredLine> = StoredLine::read(&stored.transcript)
            // A compaction stores the last messages again, under the same uuids.
            .filter(|line| line.is_work() && (line.uuid.is_empty() || seen.insert(line.uuid.clone())))
            .collect();
        let mut of_subagents = Vec::new();
        for subagent in &stored.subagents {
            let Some(begin) = main.iter().position(|line| line.has_call(&subagent.call)) else { continue };
            let in_background = main.iter().any(|line| line.launches_in_background(&subagent.call));
            for mut line in StoredLine::read(&subagent.transcript).filter(StoredLine::is_subagents_work) {
                line.place_below(&subagent.call, in_background);
                let before =
                    |main: &StoredLine| !main.timestamp.is_empty() && main.timestamp <= line.timestamp;
                let place = main.iter().rposition(before).unwrap_or(0).max(begin);
                of_subagents.push((place, line));
            }
        }
        of_subagents.sort_by(|(one, first), (other, second)| {
            (one, &first.timestamp).cmp(&(other, &second.timestamp))
        });
        let mut of_subagents = of_subagents.into_iter().peekable();
        let mut lines = Vec::new();
        for (place, line) in main.into_iter().enumerate() {
            lines.push(line);
            while let Some((_, line)) = of_subagents.next_if(|(before, _)| *before == place) {
                lines.push(line);
            }
        }
        Self { lines, text: &stored.transcript, given }
    }

    /// What became of the open work, in the order of [`OpenWork`].
    pub(super) fn recover(&self, open: &OpenWork, end: ProcessEnd) -> Vec<Observed> {
        let mut observed = Vec::new();
        if open.turn.is_some() {
            observed.extend(Conversation::replay(self.open_turn(open)));
        }
        let mut fates = Vec::new();
        for native_id in &open.prompts {
            let fate = match self.place_of(native_id) {
                Some(place) => {
                    let turns = self.turns(place, std::slice::from_ref(native_id), &[]);
                    observed.extend(Conversation::replay(turns));
                    Fate::Taken
                }
                None if end == ProcessEnd::Orderly && !self.mentions(native_id) => Fate::NeverSeen,
                None => Fate::Unknown,
            };
            fates.push(Observed::Fate { native_id: native_id.clone(), fate });
        }
        observed.extend(fates);
        let status = ProbedStatus::Idle;
        observed
            .extend(open.turn.clone().map(|turn| Observed::Signal(Signal::StatusProbed { turn, status })));
        observed.push(Observed::CaughtUp);
        observed
    }

    /// The open turn, found by its prompts or else by its model calls, and the turns that followed it.
    fn open_turn(&self, open: &OpenWork) -> Vec<StoredTurn> {
        let by_prompt = open.taken.iter().find_map(|prompt| self.place_of(prompt));
        let is_call = |line: &StoredLine| {
            line.message_id().is_some_and(|id| open.calls.iter().any(|call| call.as_str() == id))
        };
        let by_call = || self.lines.iter().position(is_call);
        match by_prompt.or_else(by_call) {
            Some(place) => self.turns(place, &open.taken, &open.calls),
            None => vec![StoredTurn { prompts: open.taken.clone(), ..StoredTurn::default() }],
        }
    }

    /// The turn that begins at this line, and those for which background work then woke the agent. `calls`
    /// are the model calls of the first one that the log has.
    fn turns(&self, place: usize, prompts: &[String], calls: &[Key]) -> Vec<StoredTurn> {
        let end = self.end_of_turn(place, prompts);
        let mut turns = vec![stored_turn(&self.lines[place..end], prompts, calls)];
        let mut next = end;
        while let Some(notification) = self.lines.get(next).and_then(|begin| self.notification(begin)) {
            let end = self.end_of_turn(next, &[]);
            let woken_by = Some(notification.uuid.clone());
            turns.push(StoredTurn { woken_by, ..stored_turn(&self.lines[next..end], &[], &[]) });
            next = end;
        }
        // The totals are those of all turns since the prompt.
        let given = self.given.as_ref().filter(|given| prompts.contains(&given.native_id));
        let totals = self.lines[place..end].iter().rev().find_map(StoredLine::totals);
        if let (Some(given), Some(totals), [only]) = (given, totals, &mut turns[..]) {
            only.used = totals.since(given.totals);
        }
        turns
    }

    /// The first line after the turn that begins at this line.
    fn end_of_turn(&self, place: usize, prompts: &[String]) -> usize {
        let mut ids: HashSet<&str> = self.lines[place].prompt_id.as_deref().into_iter().collect();
        let mut is_over = false;
        for (place, line) in self.lines.iter().enumerate().skip(place + 1) {
            if line.parent.is_some() {
                continue;
            }
            if prompts.contains(&line.uuid) {
                ids.extend(line.prompt_id.as_deref());
            } else if line.begins_other_turn(&mut ids) || (line.kind == "system" && is_over) {
                // A compaction after the answer was asked for by a later prompt.
                return place;
            }
            is_over = line.result().is_some();
        }
        self.lines.len()
    }

    /// The notification of background work that woke the agent, if the turn that begins here has one. It
    /// need not be its first line.
    fn notification(&self, begin: &StoredLine) -> Option<&StoredLine> {
        let is_of_turn = |line: &StoredLine| line.prompt_id.is_some() && line.prompt_id == begin.prompt_id;
        self.lines.iter().find(|line| is_of_turn(line) && line.is_notification())
    }

    /// The place of a prompt. What a local command did is stored before the command itself.
    fn place_of(&self, native_id: &str) -> Option<usize> {
        let is_prompt = |line: &StoredLine| line.kind == "user" && line.uuid == native_id;
        let place = self.lines.iter().position(is_prompt);
        let of_text = place.filter(|place| !self.lines[*place].is_command());
        of_text.or_else(|| self.place_of_command(native_id)).or(place)
    }

    /// The place of a prompt that is a local command. It is the first line since the prompt was given.
    fn place_of_command(&self, native_id: &str) -> Option<usize> {
        let begin = self.given.as_ref().filter(|given| given.native_id == native_id)?.time.to_iso();
        let place = self.lines.iter().position(|line| line.parent.is_none() && line.timestamp >= begin)?;
        self.lines[place..].iter().any(StoredLine::is_command).then_some(place)
    }

    /// True if the file has this id anywhere, also in a line that is not understood.
    fn mentions(&self, native_id: &str) -> bool {
        let id = native_id.as_bytes();
        !id.is_empty() && self.text.windows(id.len()).any(|window| window == id)
    }
}

/// A turn with these lines. `calls` are its model calls that the log has.
fn stored_turn(lines: &[StoredLine], prompts: &[String], calls: &[Key]) -> StoredTurn {
    let is_logged = |id: &str| calls.iter().any(|call| call.as_str() == id);
    let is_stored = |call: &Key| lines.iter().any(|line| line.message_id() == Some(call.as_str()));
    let mut repeats = calls.last().is_some_and(|last| !is_stored(last));
    let last = lines.iter().rposition(StoredLine::shows_progress);
    let result = last.and_then(|last| lines[last].result());
    let mut turn = StoredTurn { prompts: prompts.to_vec(), result, ..StoredTurn::default() };
    for (place, line) in lines.iter().enumerate() {
        if repeats && line.message_id().is_some_and(|id| !is_logged(id)) {
            repeats = false;
            turn.steps.push(StoredStep::Repeated);
        }
        let Some(live) = line.live() else { continue };
        // Subagents in the background work on after the turn.
        let is_after = turn.result.is_some() && Some(place) > last;
        let steps = if is_after { &mut turn.after } else { &mut turn.steps };
        steps.push(StoredStep::Line(Box::new(live)));
    }
    if lines.iter().any(|line| line.parent.is_some()) {
        turn.used = (usage_of_calls(lines), None);
    }
    turn
}

/// The tokens of all calls in these lines, those of subagents included.
fn usage_of_calls(lines: &[StoredLine]) -> Option<Usage> {
    // The lines of one message repeat its usage.
    let calls: HashMap<&str, Usage> = lines.iter().filter_map(StoredLine::usage).collect();
    let mut sum = None;
    calls.values().for_each(|usage| sum.get_or_insert_with(Usage::default).add(usage));
    sum
}
