//! Collects the lines that the code under test writes with `tracing`.
//!
//! The product logs from threads of its own, so the collector is the subscriber of the whole process. Under
//! `cargo nextest` each test is a process. Where tests share one, a test also sees the lines of the others:
//! look for a path or a session that only this test uses.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};
pub use tracing_core::Level;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::{Dispatch, Event, Interest, Metadata, Subscriber, dispatcher};

/// How long [`Capture::until`] waits. Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Names and values in the order in which the code gives them.
pub type Fields = Vec<(String, String)>;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Error, warn, info, debug or trace.
    pub level: Level,
    /// The module that wrote it.
    pub target: String,
    /// The text of the line.
    pub message: String,
    /// Its own fields, without the message.
    pub fields: Fields,
    /// The spans around it, the outermost first.
    pub spans: Vec<SpanContext>,
}

/// A span around a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// Its name.
    pub name: String,
    /// The fields that were recorded before the line was written.
    pub fields: Fields,
}

/// Collects lines from its start until it is dropped.
pub struct Capture {
    lines: Arc<Mutex<Vec<Line>>>,
}

/// Runs this, and returns its result with the lines that were written meanwhile.
pub fn capture<T>(run: impl FnOnce() -> T) -> (T, Vec<Line>) {
    let capture = Capture::start();
    let result = run();
    (result, capture.lines())
}

impl Capture {
    /// Begins to collect.
    ///
    /// # Panics
    ///
    /// When the process has another subscriber already.
    pub fn start() -> Self {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            dispatcher::set_global_default(Dispatch::new(Collector::default()))
                .expect("this process has another subscriber");
        });
        let lines = Arc::new(Mutex::new(Vec::new()));
        let mut captures = CAPTURES.write().unwrap_or_else(PoisonError::into_inner);
        captures.retain(|capture| capture.strong_count() > 0);
        captures.push(Arc::downgrade(&lines));
        Self { lines }
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<Line> {
        lock(&self.lines).clone()
    }

    /// The lines so far of this level and of more severe ones.
    pub fn at_least(&self, level: Level) -> Vec<Line> {
        self.lines().into_iter().filter(|line| line.level <= level).collect()
    }

    /// The first line that is the wanted one, which may come later.
    ///
    /// # Panics
    ///
    /// When none has come within a minute; with the lines that did come.
    pub async fn until(&self, is_wanted: impl Fn(&Line) -> bool) -> Line {
        let begin = Instant::now();
        loop {
            if let Some(line) = lock(&self.lines).iter().find(|line| is_wanted(line)) {
                return line.clone();
            }
            assert!(begin.elapsed() < PATIENCE, "no such line; there are:\n{}", self.text());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The lines so far, for the message of an assertion.
    pub fn text(&self) -> String {
        self.lines().iter().map(|line| format!("{line}\n")).collect()
    }
}

impl Line {
    /// The value of a field: of the line itself, or else of the innermost span that has it.
    pub fn field(&self, name: &str) -> Option<&str> {
        let spans = self.spans.iter().rev().map(|span| &span.fields);
        let mut all = std::iter::once(&self.fields).chain(spans).flatten();
        all.find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}: {}", self.level, self.target, self.message)?;
        let spans = self.spans.iter().flat_map(|span| &span.fields);
        for (name, value) in self.fields.iter().chain(spans) {
            write!(out, " {name}={value}")?;
        }
        Ok(())
    }
}

/// Where lines go. A capture that was dropped is removed by the next one.
static CAPTURES: RwLock<Vec<Weak<Mutex<Vec<Line>>>>> = RwLock::new(Vec::new());

thread_local! {
    /// The spans that this thread has entered, the innermost last.
    static ENTERED: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

/// The subscriber of the process.
#[derive(Default)]
struct Collector {
    last_span: AtomicU64,
    spans: Mutex<HashMap<u64, OpenSpan>>,
}

/// A span that somebody still holds.
struct OpenSpan {
    metadata: &'static Metadata<'static>,
    parent: Option<Id>,
    fields: Fields,
    handles: usize,
}

impl Collector {
    /// This span and those around it, the outermost first.
    fn context(&self, innermost: Option<Id>) -> Vec<SpanContext> {
        let spans = lock(&self.spans);
        let mut context = Vec::new();
        let mut next = innermost;
        while let Some(span) = next.and_then(|id| spans.get(&id.into_u64())) {
            let (name, fields) = (span.metadata.name().to_owned(), span.fields.clone());
            context.push(SpanContext { name, fields });
            next = span.parent.clone();
        }
        context.reverse();
        context
    }
}

impl Subscriber for Collector {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let captures = CAPTURES.read().unwrap_or_else(PoisonError::into_inner);
        // A span that began before a capture is part of the capture's lines.
        metadata.is_span() || captures.iter().any(|capture| capture.strong_count() > 0)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = Id::from_u64(self.last_span.fetch_add(1, Ordering::Relaxed) + 1);
        let parent = if span.is_contextual() { entered() } else { span.parent().cloned() };
        let mut values = Values::default();
        span.record(&mut values);
        let open = OpenSpan { metadata: span.metadata(), parent, fields: values.0, handles: 1 };
        lock(&self.spans).insert(id.into_u64(), open);
        id
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut new = Values::default();
        values.record(&mut new);
        if let Some(span) = lock(&self.spans).get_mut(&span.into_u64()) {
            span.fields.retain(|(name, _)| new.0.iter().all(|(changed, _)| changed != name));
            span.fields.append(&mut new.0);
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut values = Values::default();
        event.record(&mut values);
        let mut fields = values.0;
        let message = fields.extract_if(.., |(name, _)| name == "message").map(|(_, text)| text).collect();
        let span = if event.is_contextual() { entered() } else { event.parent().cloned() };
        let metadata = event.metadata();
        let line = Line {
            level: *metadata.level(),
            target: metadata.target().to_owned(),
            message,
            fields,
            spans: self.context(span),
        };
        for capture in CAPTURES.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if let Some(lines) = capture.upgrade() {
                lock(&lines).push(line.clone());
            }
        }
    }

    fn enter(&self, span: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(span.clone()));
    }

    fn exit(&self, span: &Id) {
        ENTERED.with_borrow_mut(|entered| {
            if let Some(place) = entered.iter().rposition(|entered| entered == span) {
                entered.remove(place);
            }
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = lock(&self.spans).get_mut(&id.into_u64()) {
            span.handles += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut spans = lock(&self.spans);
        let Some(span) = spans.get_mut(&id.into_u64()) else { return false };
        span.handles -= 1;
        let is_last = span.handles == 0;
        if is_last {
            spans.remove(&id.into_u64());
        }
        is_last
    }

    fn current_span(&self) -> Current {
        let current = entered().and_then(|id| {
            let metadata = lock(&self.spans).get(&id.into_u64())?.metadata;
            Some(Current::new(id, metadata))
        });
        current.unwrap_or_else(Current::none)
    }
}

/// The innermost span that this thread has entered.
fn entered() -> Option<Id> {
    ENTERED.with_borrow(|entered| entered.last().cloned())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The values of a line or a span, as text.
#[derive(Default)]
struct Values(Fields);

impl Visit for Values {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name().to_owned(), format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name().to_owned(), value.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::{Capture, Level, capture};
    use tracing::{debug_span, info_span, warn};

    #[test]
    fn a_line_has_its_fields_and_those_of_the_spans_around_it() {
        let ((), lines) = capture(|| {
            let session = info_span!("session", session = "s-1");
            let turn = debug_span!(parent: &session, "turn", turn = "t-1", agent = tracing::field::Empty);
            turn.record("agent", "demo");
            turn.in_scope(|| warn!(bytes = 7, error = %"disk full", "the fields test writes"));
        });
        let line = lines.iter().find(|line| line.message == "the fields test writes").unwrap();
        assert_eq!(line.level, Level::WARN);
        assert_eq!(line.fields, [("bytes".into(), "7".into()), ("error".into(), "disk full".into())]);
        assert_eq!(line.spans.iter().map(|span| span.name.as_str()).collect::<Vec<_>>(), ["session", "turn"]);
        assert_eq!(line.field("session"), Some("s-1"));
        assert_eq!(line.field("agent"), Some("demo"));
        let target = "turnstream_testkit::diagnostics::tests";
        let text = "the fields test writes bytes=7 error=disk full session=s-1 turn=t-1 agent=demo";
        assert_eq!(line.to_string(), format!("WARN {target}: {text}"));
    }

    #[tokio::test]
    async fn a_line_of_another_thread_is_waited_for() {
        let capture = Capture::start();
        let thread = std::thread::spawn(|| warn!("another thread writes"));
        let line = capture.until(|line| line.message == "another thread writes").await;
        assert!(capture.at_least(Level::WARN).contains(&line), "{}", capture.text());
        thread.join().unwrap();
    }
}
