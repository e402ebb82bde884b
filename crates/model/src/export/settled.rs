//! The last place of a log at which nothing was open. An export ends there (L10), so that an import has no
//! open turn to resume.

use crate::cursor::Seq;
use crate::event::{Body, Event, Status};
use crate::fold::{Activity, OpenIds, State};

/// Follows a log event by event and knows the last place at which nothing was open.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    open: OpenIds,
    busy: bool,
    last: Option<Seq>,
}

impl Settled {
    /// For a log that continues this state: what is open in the state is open.
    pub fn after(base: &State) -> Self {
        let (open, busy) = (base.open().ids(), base.session.status != Activity::Idle);
        // Before the first event there is nothing to export.
        let last = (base.seq > Seq(0) && open.is_empty() && !busy).then_some(base.seq);
        Self { open, busy, last }
    }

    /// The last event after which nothing was open; `None` when there was no such event.
    pub fn last(&self) -> Option<Seq> {
        self.last
    }

    /// What is open now, in words; `None` when nothing is.
    pub fn open(&self) -> Option<String> {
        let status = || self.busy.then(|| "the session, which is not idle,".to_owned());
        self.open.first().or_else(status)
    }

    /// The next event of the log.
    pub fn apply(&mut self, event: &Event) {
        self.open.apply(&event.draft);
        if let Body::SessionStatus(status) = &event.draft.body {
            self.busy = *status != Status::Idle;
        }
        if self.open.is_empty() && !self.busy {
            self.last = Some(event.seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::Fold;

    fn after(lines: &[&str]) -> (Option<u64>, Option<String>) {
        let mut settled = Settled::default();
        for (index, line) in lines.iter().enumerate() {
            let line = format!(r#"{{"seq":{},"time":1,{}"#, index + 1, &line[1..]);
            settled.apply(&Event::from_json(&line).unwrap());
        }
        (settled.last().map(|seq| seq.0), settled.open())
    }

    #[test]
    fn a_log_is_settled_when_nothing_is_open_in_it_and_it_is_idle() {
        let log = [
            r#"{"type":"session.created","session":"s","agent":"a","cwd":"/w"}"#,
            r#"{"type":"prompt.accepted","prompt":"p1","content":[]}"#,
            r#"{"type":"turn.started","turn":"t1","origin":"prompt","prompts":["p1"]}"#,
            r#"{"type":"prompt.taken","prompt":"p1","turn":"t1"}"#,
            r#"{"type":"session.status","status":"busy"}"#,
            r#"{"type":"item.started","turn":"t1","item":"i1","kind":"message","text":""}"#,
            r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
            r#"{"type":"turn.ended","turn":"t1","outcome":"completed"}"#,
            r#"{"type":"session.status","status":"idle"}"#,
            r#"{"type":"item.started","item":"i2","parent":"i1","kind":"message","text":""}"#,
            r#"{"type":"item.ended","item":"i2","state":"completed"}"#,
        ];
        let open = |open: &str| Some(open.to_owned());
        assert_eq!(after(&log[..1]), (Some(1), None));
        assert_eq!(after(&log[..2]), (Some(1), open("prompt p1")));
        assert_eq!(after(&log[..7]), (Some(1), open("turn t1")));
        assert_eq!(after(&log[..8]), (Some(1), open("the session, which is not idle,")));
        assert_eq!(after(&log[..9]), (Some(9), None));
        assert_eq!(after(&log[..10]), (Some(9), open("item i2")));
        assert_eq!(after(&log), (Some(11), None));
    }

    #[test]
    fn what_is_open_in_a_base_is_open_after_it() {
        assert_eq!(Settled::after(&State::default()).last(), None);
        let log = [
            r#"{"seq":1,"time":1,"type":"session.created","session":"s","agent":"a","cwd":"/w"}"#,
            r#"{"seq":2,"time":1,"type":"prompt.accepted","prompt":"p1","content":[]}"#,
            r#"{"seq":3,"time":1,"type":"item.started","item":"i1","kind":"message","text":""}"#,
            r#"{"seq":4,"time":1,"type":"session.status","status":"busy"}"#,
            r#"{"seq":5,"time":1,"type":"prompt.withdrawn","prompt":"p1"}"#,
            r#"{"seq":6,"time":1,"type":"item.ended","item":"i1","state":"completed"}"#,
            r#"{"seq":7,"time":1,"type":"session.status","status":"idle"}"#,
        ]
        .map(|line| Event::from_json(line).unwrap());
        for cut in 1..=log.len() {
            let base = Fold::of(&log[..cut]).into_state();
            let (mut whole, mut rest) = (Settled::default(), Settled::after(&base));
            log[..cut].iter().for_each(|event| whole.apply(event));
            assert_eq!(rest.open(), whole.open(), "cut after {cut}");
            for event in &log[cut..] {
                whole.apply(event);
                rest.apply(event);
            }
            assert_eq!((rest.last(), rest.open()), (Some(Seq(7)), None), "cut after {cut}");
        }
    }
}
