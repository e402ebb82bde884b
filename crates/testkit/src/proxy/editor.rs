//! Edits the body of one response: decides what is sent and done instead. No I/O.

use super::events::{Kind, Splitter, SseEvent};
use super::rules::{Action, Edit, Ending, Fault, Point, Rest, RuleId};
use super::shared_state::{Live, SharedState};
use std::collections::HashSet;
use std::sync::Arc;

/// The kept bytes of what was sent, to find patterns across pieces.
const TAIL: usize = 4096;
/// The most bytes of events that wait for a later place.
const HELD_CAP: usize = 64 << 20;

/// What to do next.
#[derive(Debug)]
pub(super) enum Step {
    Send(Vec<u8>),
    Cut(Ending),
    /// A stall or a delay. The sender claims it when it gets there.
    Pause(Arc<Live>),
}

/// Whether a body is cut into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Events,
    Bytes,
}

/// The state of one response.
pub(super) struct Editor<'a> {
    shared: &'a SharedState,
    connection: u64,
    body: Body,
    splitter: Splitter,
    events: u64,
    /// Events that wait for a later place, with the number of events that must pass first.
    held: Vec<(usize, Vec<u8>)>,
    sent: u64,
    tail: Vec<u8>,
    /// Rules at a point that have fired. They fire once per response.
    done: HashSet<RuleId>,
    discard: bool,
}

// === impl Editor ===

impl<'a> Editor<'a> {
    pub(super) fn new(shared: &'a SharedState, connection: u64, body: Body) -> Self {
        Self {
            shared,
            connection,
            body,
            splitter: Splitter::default(),
            events: 0,
            held: Vec::new(),
            sent: 0,
            tail: Vec::new(),
            done: HashSet::new(),
            discard: false,
        }
    }

    /// Edits the next piece of the body with the active rules.
    pub(super) fn feed(&mut self, content: &[u8], rules: &[Arc<Live>]) -> Vec<Step> {
        let mut steps = Vec::new();
        match self.body {
            Body::Bytes => self.pass(content, rules, &mut steps),
            Body::Events => {
                self.splitter.push(content);
                if self.held.is_empty() && !rules.iter().any(|live| about_events(live.fault())) {
                    let bytes = self.pass_blocks();
                    self.pass(&bytes, rules, &mut steps);
                } else {
                    while let Some(block) = self.splitter.next_block() {
                        self.count(block.kind);
                        match block.kind {
                            Kind::Event => self.edit(&block.bytes, rules, &mut steps),
                            Kind::Rest | Kind::Beginning | Kind::Blank => {
                                self.pass(&block.bytes, rules, &mut steps);
                            }
                        }
                    }
                }
            }
        }
        steps
    }

    /// Ends the body: returns delayed events.
    pub(super) fn finish(&mut self, rules: &[Arc<Live>]) -> Vec<Step> {
        let mut steps = Vec::new();
        for (_, bytes) in std::mem::take(&mut self.held) {
            self.pass(&bytes, rules, &mut steps);
        }
        let residue = self.splitter.pass();
        self.pass(&residue, rules, &mut steps);
        steps
    }

    /// Passes on everything, and counts the events.
    fn pass_blocks(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(block) = self.splitter.next_block() {
            self.count(block.kind);
            bytes.extend(block.bytes);
        }
        bytes.append(&mut self.splitter.pass());
        bytes
    }

    fn count(&mut self, kind: Kind) {
        self.events += u64::from(matches!(kind, Kind::Event | Kind::Rest));
    }

    fn edit(&mut self, bytes: &[u8], rules: &[Arc<Live>], steps: &mut Vec<Step>) {
        let event = SseEvent { bytes, number: self.events };
        self.act_at(
            rules,
            steps,
            |point| matches!(point, Point::BeforeEvent(wanted) if wanted.matches(&event)),
        );
        let edit = rules.iter().find_map(|live| match live.fault() {
            Fault::Event(wanted, edit) if wanted.matches(&event) => {
                self.shared.claim(live, self.connection).then_some(*edit)
            }
            _ => None,
        });
        match edit {
            None => self.send_event(bytes, rules, steps),
            Some(Edit::Drop) => {}
            Some(Edit::Duplicate) => {
                self.send_event(bytes, rules, steps);
                self.send_event(bytes, rules, steps);
            }
            Some(Edit::Later(0)) => self.send_event(bytes, rules, steps),
            Some(Edit::Later(places)) => self.held.push((places, bytes.to_vec())),
        }
        self.act_at(
            rules,
            steps,
            |point| matches!(point, Point::AfterEvent(wanted) if wanted.matches(&event)),
        );
    }

    /// Sends an event, and then the delayed events whose place has come.
    fn send_event(&mut self, bytes: &[u8], rules: &[Arc<Live>], steps: &mut Vec<Step>) {
        self.pass(bytes, rules, steps);
        let full = self.held.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > HELD_CAP;
        let (due, held) = std::mem::take(&mut self.held)
            .into_iter()
            .map(|(places, bytes)| (if full { 0 } else { places - 1 }, bytes))
            .partition::<Vec<_>, _>(|(places, _)| *places == 0);
        self.held = held;
        for (_, bytes) in due {
            self.pass(&bytes, rules, steps);
        }
    }

    /// Sends bytes, with the actions at points among them.
    fn pass(&mut self, mut bytes: &[u8], rules: &[Arc<Live>], steps: &mut Vec<Step>) {
        if bytes.is_empty() {
            return;
        }
        while !self.discard {
            let next = rules
                .iter()
                .filter(|live| !self.done.contains(&live.id))
                .filter_map(|live| Some((self.distance(live, bytes)?, live)))
                .min_by_key(|(distance, _)| *distance);
            let Some((distance, live)) = next else { break };
            self.send(&bytes[..distance], steps);
            bytes = &bytes[distance..];
            self.fire(live, steps);
        }
        self.send(bytes, steps);
    }

    /// The number of bytes before the rule's point.
    fn distance(&self, live: &Live, bytes: &[u8]) -> Option<usize> {
        match live.fault() {
            Fault::At(Point::BodyByte(at), _) => {
                let distance = usize::try_from(at.checked_sub(self.sent)?).ok()?;
                (distance <= bytes.len()).then_some(distance)
            }
            Fault::At(Point::Pattern(pattern), _) if !pattern.is_empty() => {
                let tail = &self.tail[self.tail.len().saturating_sub(pattern.len() - 1)..];
                let joined = [tail, bytes].concat();
                let at = joined.windows(pattern.len()).position(|window| window == pattern)?;
                Some(at + pattern.len() - tail.len())
            }
            Fault::At(_, _)
            | Fault::Event(..)
            | Fault::Pace(_)
            | Fault::Refuse(_)
            | Fault::DelayConnect(_) => None,
        }
    }

    fn act_at(&mut self, rules: &[Arc<Live>], steps: &mut Vec<Step>, here: impl Fn(&Point) -> bool) {
        for live in rules {
            if matches!(live.fault(), Fault::At(point, _) if here(point)) && !self.done.contains(&live.id) {
                self.fire(live, steps);
            }
        }
    }

    fn fire(&mut self, live: &Arc<Live>, steps: &mut Vec<Step>) {
        self.done.insert(live.id);
        let Fault::At(_, action) = live.fault() else { return };
        if self.discard {
            return;
        }
        match action {
            Action::Stall | Action::Delay(_) => steps.push(Step::Pause(Arc::clone(live))),
            Action::Splice(bytes, rest) => {
                if self.shared.claim(live, self.connection) {
                    self.send(bytes, steps);
                    self.discard = *rest == Rest::Discard;
                }
            }
            Action::Cut(ending) => {
                if self.shared.claim(live, self.connection) {
                    steps.push(Step::Cut(*ending));
                    self.discard = true;
                }
            }
        }
    }

    fn send(&mut self, bytes: &[u8], steps: &mut Vec<Step>) {
        if self.discard || bytes.is_empty() {
            return;
        }
        self.sent += bytes.len() as u64;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
        let surplus = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..surplus);
        match steps.last_mut() {
            Some(Step::Send(last)) => last.extend_from_slice(bytes),
            Some(Step::Cut(_) | Step::Pause(_)) | None => steps.push(Step::Send(bytes.to_vec())),
        }
    }
}

/// Whether this fault can change the length of a body, which needs other chunks than the upstream's.
pub(super) fn needs_own_framing(fault: &Fault) -> bool {
    about_events(fault) || splices_bytes(fault)
}

/// Whether this fault needs complete events.
pub(super) fn about_events(fault: &Fault) -> bool {
    match fault {
        Fault::Event(..) | Fault::At(Point::BeforeEvent(_) | Point::AfterEvent(_), _) => true,
        Fault::At(Point::Byte(_) | Point::BodyByte(_) | Point::Pattern(_), _) => false,
        Fault::Refuse(_) | Fault::DelayConnect(_) | Fault::Pace(_) => false,
    }
}

/// Whether this fault inserts bytes into any body, event stream or not.
pub(super) fn splices_bytes(fault: &Fault) -> bool {
    matches!(fault, Fault::At(Point::BodyByte(_) | Point::Pattern(_), Action::Splice(..)))
}
