//! The spans of turns and attempts, made from events that are durable.
//!
//! Names and fields follow the OpenTelemetry conventions for generative AI; `docs/diagnostics.md` lists them.
//! Fields never hold text of prompts, models or tools.

use std::collections::BTreeMap;
use tracing::field::Empty;
use tracing::{Span, debug, info, info_span, warn};
use turnstream_model::event::{Body, Cost, Draft, Outcome, TurnError, Usage};
use turnstream_model::fold::State;
use turnstream_model::id::{AttemptId, SessionId, TurnId};
use turnstream_model::time::Time;

/// The open spans of one session.
pub(super) struct TurnSpans {
    session: SessionId,
    agent: String,
    /// The model that was chosen for the session.
    model: Option<String>,
    open: Option<OpenTurn>,
}

/// The span of the open turn, and those of its open attempts.
struct OpenTurn {
    turn: TurnId,
    span: Span,
    started: Time,
    attempts: BTreeMap<AttemptId, Span>,
    /// The model that was chosen for the session when the turn began.
    model: Option<String>,
    /// The model of the last call.
    last_model: Option<String>,
    /// Model calls so far, repeats included.
    calls: u64,
    is_recovered: bool,
}

/// The part of an event that spans show.
pub(super) enum TracedEvent {
    /// The session's agent.
    Agent(String),
    /// The model that was chosen for the session.
    Model(String),
    TurnStarted(TurnId),
    AttemptStarted(AttemptId, Option<String>),
    AttemptEnded(AttemptId, End),
    AttemptSuperseded(AttemptId),
    TurnEnded(Outcome, End, Option<Box<TurnError>>),
}

/// What a turn or an attempt ended with.
pub(super) struct End {
    reason: Option<String>,
    usage: Option<Box<Usage>>,
    cost: Option<Cost>,
}

impl TracedEvent {
    /// `None` for nearly all events: deltas are in no span.
    pub(super) fn of(event: &Draft) -> Option<Self> {
        let Draft { turn, attempt, body, .. } = event;
        match body {
            Body::SessionCreated { agent, .. } => Some(Self::Agent(agent.clone())),
            Body::SessionUpdated(patch) => patch.model.clone().map(Self::Model),
            Body::TurnStarted { .. } => turn.clone().map(Self::TurnStarted),
            Body::AttemptStarted { model, .. } => Some(Self::AttemptStarted(attempt.clone()?, model.clone())),
            Body::AttemptEnded { finish, usage, cost } => {
                let end = End { reason: finish.clone(), usage: usage.clone(), cost: cost.clone() };
                Some(Self::AttemptEnded(attempt.clone()?, end))
            }
            Body::AttemptSuperseded { .. } => attempt.clone().map(Self::AttemptSuperseded),
            Body::TurnEnded { outcome, stop_reason, usage, cost, error, summed: _ } => {
                let reason = stop_reason.map(|reason| reason.to_string());
                let end = End { reason, usage: usage.clone(), cost: cost.clone() };
                Some(Self::TurnEnded(*outcome, end, error.clone()))
            }
            Body::SessionStatus(_)
            | Body::SessionResumed { .. }
            | Body::SessionEnded { .. }
            | Body::PromptAccepted { .. }
            | Body::PromptSent { .. }
            | Body::PromptTaken { .. }
            | Body::PromptWithdrawn { .. }
            | Body::ItemStarted { .. }
            | Body::ItemDelta { .. }
            | Body::ItemReplaced { .. }
            | Body::ItemUpdated { .. }
            | Body::ItemEnded { .. }
            | Body::ItemRevised { .. }
            | Body::ItemRemoved
            | Body::ApprovalRequested { .. }
            | Body::ApprovalResolved { .. }
            | Body::QuestionAsked { .. }
            | Body::QuestionAnswered { .. }
            | Body::Notice { .. }
            | Body::Aside(_)
            | Body::Unknown { .. } => None,
        }
    }
}

impl End {
    fn record(&self, span: &Span) {
        let Self { reason, usage, cost } = self;
        if let Some(reason) = reason {
            // The convention's value is a list, which a field cannot be: it is written as one.
            span.record("gen_ai.response.finish_reasons", format!("{:?}", [reason]));
        }
        record_usage(span, usage.as_deref());
        if let Some(cost) = cost {
            span.record("turnstream.cost", cost.amount);
            span.record("turnstream.currency", cost.currency.as_str());
        }
    }
}

impl OpenTurn {
    /// At the end, because each call may have another model.
    fn record_models(&self) {
        record_models(&self.span, self.model.as_deref(), self.last_model.as_deref());
    }
}

impl Drop for TurnSpans {
    /// The turn goes on without this keeper; its span ends here.
    fn drop(&mut self) {
        if let Some(open) = &self.open {
            open.record_models();
        }
    }
}

impl TurnSpans {
    /// For a session in this state. A turn that is open there gets a new span: its owner is gone, and with it
    /// the first span.
    pub(super) fn resume(session: SessionId, state: &State) -> Self {
        let (agent, model) = (state.session.agent.clone(), state.session.model.clone());
        let mut spans = Self { session, agent, model, open: None };
        if let Some(turn) = state.turns.last().filter(|turn| turn.outcome.is_none()) {
            let mut open = spans.open_turn(&turn.turn, turn.started);
            open.is_recovered = true;
            open.calls = turn.attempts.len() as u64;
            open.last_model = turn.attempts.iter().rev().find_map(|attempt| attempt.model.clone());
            open.span.record("turnstream.recovered", true);
            spans.open = Some(open);
            for attempt in turn.attempts.iter().filter(|attempt| !attempt.ended) {
                spans.open_attempt(&attempt.attempt, attempt.model.as_deref());
            }
        }
        spans
    }

    /// Takes an event that was appended at this time and is durable.
    pub(super) fn apply(&mut self, event: TracedEvent, time: Time) {
        match event {
            TracedEvent::Agent(agent) => self.agent = agent,
            TracedEvent::Model(model) => self.model = Some(model),
            TracedEvent::TurnStarted(turn) => self.open = Some(self.open_turn(&turn, time)),
            TracedEvent::AttemptStarted(attempt, model) => self.open_attempt(&attempt, model.as_deref()),
            TracedEvent::AttemptEnded(attempt, end) => {
                if let Some(span) = self.close_attempt(&attempt) {
                    end.record(&span);
                    span.record("turnstream.outcome", "ended");
                    span.record("otel.status_code", "OK");
                    debug!(parent: &span, "the attempt's span ends");
                }
            }
            TracedEvent::AttemptSuperseded(attempt) => {
                if let Some(span) = self.close_attempt(&attempt) {
                    span.record("turnstream.outcome", "superseded");
                    span.record("otel.status_code", "ERROR");
                    debug!(parent: &span, "the attempt's span ends");
                }
            }
            TracedEvent::TurnEnded(outcome, end, error) => {
                if let Some(open) = self.open.take() {
                    end.record(&open.span);
                    end_turn(open, outcome, end.usage.as_deref(), error.as_deref(), time);
                }
            }
        }
    }

    fn open_turn(&self, turn: &TurnId, started: Time) -> OpenTurn {
        OpenTurn {
            turn: turn.clone(),
            span: turn_span(&SpanPlace { session: &self.session, agent: &self.agent, turn }),
            started,
            attempts: BTreeMap::new(),
            model: self.model.clone(),
            last_model: None,
            calls: 0,
            is_recovered: false,
        }
    }

    fn open_attempt(&mut self, attempt: &AttemptId, model: Option<&str>) {
        let Some(open) = &mut self.open else { return };
        let place = SpanPlace { session: &self.session, agent: &self.agent, turn: &open.turn };
        let span = attempt_span(&open.span, &place, attempt);
        record_models(&span, self.model.as_deref().or(model), model);
        if let Some(model) = model {
            span.record("otel.name", format!("chat {}", split_model(model).1));
            open.last_model = Some(model.to_owned());
        }
        open.calls += 1;
        open.attempts.insert(attempt.clone(), span);
    }

    fn close_attempt(&mut self, attempt: &AttemptId) -> Option<Span> {
        self.open.as_mut()?.attempts.remove(attempt)
    }
}

/// Closes the turn's span and writes the one line that says how the turn ended.
fn end_turn(open: OpenTurn, outcome: Outcome, usage: Option<&Usage>, error: Option<&TurnError>, time: Time) {
    open.record_models();
    let OpenTurn { turn, span, started, attempts, calls, is_recovered, model: _, last_model: _ } = open;
    let class = error.map(|error| error.class.as_str());
    for span in attempts.values().chain([&span]) {
        span.record("turnstream.outcome", outcome.as_str());
        match outcome {
            Outcome::Completed => {
                span.record("otel.status_code", "OK");
            }
            Outcome::Failed | Outcome::Lost => {
                span.record("otel.status_code", "ERROR");
                span.record("error.type", class.unwrap_or("_OTHER"));
            }
            // A user's wish is neither a success nor an error.
            Outcome::Cancelled => {}
        }
    }
    let duration_ms = time.0.saturating_sub(started.0);
    let (input_tokens, output_tokens) = (input_tokens(usage), output_tokens(usage));
    let status = error.and_then(|error| error.status);
    match outcome {
        Outcome::Completed | Outcome::Cancelled => info!(
            %turn, outcome = outcome.as_str(), class, duration_ms, attempts = calls,
            input_tokens, output_tokens, recovered = is_recovered, "turn ended"
        ),
        Outcome::Failed | Outcome::Lost => warn!(
            %turn, outcome = outcome.as_str(), class, status, duration_ms,
            attempts = calls, input_tokens, output_tokens, recovered = is_recovered, "turn ended"
        ),
    }
    // The error is in the agent's words, which may quote a prompt. It was redacted before it was appended.
    debug!(parent: &span, error = error.map(|error| error.message.as_str()), "the turn's span ends");
}

/// Makes a span with the fields of turns and attempts, and some of its own. Those that are empty are recorded
/// later: a span takes only fields that were declared when it was made.
macro_rules! gen_ai_span {
    ($parent:expr, $name:literal, $operation:literal, $place:expr, $($field:literal = $value:expr),+) => {{
        let SpanPlace { session, agent, turn } = $place;
        info_span!(
            target: "turnstream::turn",
            parent: $parent,
            $name,
            "otel.status_code" = Empty,
            "gen_ai.operation.name" = $operation,
            "gen_ai.agent.name" = agent,
            "gen_ai.conversation.id" = session.as_str(),
            "gen_ai.provider.name" = Empty,
            "gen_ai.request.model" = Empty,
            "gen_ai.response.model" = Empty,
            "gen_ai.response.finish_reasons" = Empty,
            "gen_ai.usage.input_tokens" = Empty,
            "gen_ai.usage.output_tokens" = Empty,
            "gen_ai.usage.cache_read.input_tokens" = Empty,
            "gen_ai.usage.cache_creation.input_tokens" = Empty,
            "gen_ai.usage.reasoning.output_tokens" = Empty,
            "turnstream.cost" = Empty,
            "turnstream.currency" = Empty,
            "turnstream.session" = session.as_str(),
            "turnstream.turn" = turn.as_str(),
            "turnstream.outcome" = Empty,
            "error.type" = Empty,
            $($field = $value),+
        )
    }};
}

/// What every span names.
struct SpanPlace<'a> {
    session: &'a SessionId,
    agent: &'a str,
    turn: &'a TurnId,
}

fn turn_span(place: &SpanPlace<'_>) -> Span {
    gen_ai_span!(
        None,
        "turn",
        "invoke_agent",
        place,
        "otel.name" = format!("invoke_agent {}", place.agent),
        "otel.kind" = "internal",
        "turnstream.recovered" = Empty
    )
}

fn attempt_span(parent: &Span, place: &SpanPlace<'_>, attempt: &AttemptId) -> Span {
    gen_ai_span!(
        parent,
        "attempt",
        "chat",
        place,
        "otel.name" = "chat",
        "otel.kind" = "client",
        "turnstream.attempt" = attempt.as_str()
    )
}

/// The provider and the model of `PROVIDER/MODEL`. Other names have no provider.
fn split_model(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((provider, model)) => (Some(provider), model),
        None => (None, name),
    }
}

/// Records the models that were requested and that answered, and the provider. Called once for each span: an
/// exported span has one more attribute for each time that a field is recorded, and a limit of them.
fn record_models(span: &Span, requested: Option<&str>, answered: Option<&str>) {
    let (requested, answered) = (requested.map(split_model), answered.map(split_model));
    if let Some((_, model)) = requested {
        span.record("gen_ai.request.model", model);
    }
    if let Some((_, model)) = answered {
        span.record("gen_ai.response.model", model);
    }
    if let Some(provider) = [answered, requested].into_iter().flatten().find_map(|(provider, _)| provider) {
        span.record("gen_ai.provider.name", provider);
    }
}

fn record_usage(span: &Span, usage: Option<&Usage>) {
    let known = |count: fn(&Usage) -> Option<u64>| usage.and_then(count).map(signed);
    let fields = [
        ("gen_ai.usage.input_tokens", input_tokens(usage)),
        ("gen_ai.usage.output_tokens", output_tokens(usage)),
        ("gen_ai.usage.cache_read.input_tokens", known(|usage| usage.cache_read)),
        ("gen_ai.usage.cache_creation.input_tokens", known(|usage| usage.cache_write)),
        ("gen_ai.usage.reasoning.output_tokens", known(|usage| usage.reasoning)),
    ];
    for (field, count) in fields {
        if let Some(count) = count {
            span.record(field, count);
        }
    }
}

/// All tokens that the model read. The convention counts cached tokens in; the wire counts them apart.
fn input_tokens(usage: Option<&Usage>) -> Option<i64> {
    let usage = usage?;
    sum([usage.input, usage.cache_read, usage.cache_write])
}

/// All tokens that the model wrote. The convention counts reasoning in; the wire counts it apart.
fn output_tokens(usage: Option<&Usage>) -> Option<i64> {
    let usage = usage?;
    sum([usage.output, usage.reasoning])
}

/// The sum of what is known; `None` when nothing is.
fn sum<const N: usize>(counts: [Option<u64>; N]) -> Option<i64> {
    counts.into_iter().flatten().reduce(u64::saturating_add).map(signed)
}

/// OpenTelemetry has signed numbers only: an unsigned field would be exported as text.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    /// A span, a field of it, and its value.
    type RecordedField = (u64, &'static str, String);

    /// The fields that were recorded after their span was made, as an exporter receives them.
    #[derive(Clone, Default)]
    struct Recorded {
        spans: Arc<AtomicU64>,
        fields: Arc<Mutex<Vec<RecordedField>>>,
    }

    impl Subscriber for Recorded {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
        }

        fn record(&self, span: &Id, values: &Record<'_>) {
            values.record(&mut OfSpan(span.into_u64(), self));
        }

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    struct OfSpan<'a>(u64, &'a Recorded);

    impl Visit for OfSpan<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            let mut fields = self.1.fields.lock().expect("no test panics with the lock");
            fields.push((self.0, field.name(), format!("{value:?}")));
        }
    }

    #[test]
    fn a_turn_of_many_calls_records_each_field_once() {
        let recorded = Recorded::default();
        tracing::subscriber::with_default(recorded.clone(), || {
            let mut spans = TurnSpans::resume(SessionId::from("s"), &State::default());
            spans.apply(TracedEvent::Model("anthropic/claude".to_owned()), Time(1));
            spans.apply(TracedEvent::TurnStarted(TurnId::from("t1")), Time(1));
            for call in 1..=100 {
                let attempt = AttemptId::from(format!("a{call}"));
                let model = Some(format!("openai/gpt-{call}"));
                spans.apply(TracedEvent::AttemptStarted(attempt.clone(), model), Time(1));
                let end = End { reason: Some("stop".to_owned()), usage: None, cost: None };
                spans.apply(TracedEvent::AttemptEnded(attempt, end), Time(1));
            }
            let end = End { reason: Some("end_turn".to_owned()), usage: None, cost: None };
            spans.apply(TracedEvent::TurnEnded(Outcome::Completed, end, None), Time(2));
        });
        let fields = recorded.fields.lock().expect("no test panics with the lock");
        let mut seen = std::collections::HashSet::new();
        for (span, field, value) in fields.iter() {
            assert!(seen.insert((span, field)), "{field} of span {span} again, as {value}");
        }
        let of_turn = |field| fields.iter().find(|(span, name, _)| *span == 1 && *name == field);
        let value = |field| of_turn(field).map(|(_, _, value)| value.trim_matches('"').to_owned());
        assert_eq!(value("gen_ai.request.model").as_deref(), Some("claude"));
        assert_eq!(value("gen_ai.response.model").as_deref(), Some("gpt-100"));
        assert_eq!(value("gen_ai.provider.name").as_deref(), Some("openai"));
        assert_eq!(value("turnstream.outcome").as_deref(), Some("completed"));
    }

    #[test]
    fn a_model_names_its_provider_before_the_first_slash() {
        assert_eq!(split_model("openrouter/meta/llama"), (Some("openrouter"), "meta/llama"));
        assert_eq!(split_model("scripted"), (None, "scripted"));
    }

    #[test]
    fn cached_and_reasoning_tokens_are_part_of_the_totals() {
        let usage = Usage {
            input: Some(10),
            output: Some(3),
            reasoning: Some(4),
            cache_read: Some(100),
            ..Usage::default()
        };
        assert_eq!((input_tokens(Some(&usage)), output_tokens(Some(&usage))), (Some(110), Some(7)));
        assert_eq!(input_tokens(Some(&Usage::default())), None);
        assert_eq!(output_tokens(None), None);
    }
}
