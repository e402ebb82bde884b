//! The attempts for one request, by one route after the other, until there is an answer.

use crate::Shared;
use crate::attempt::{Asked, Attempted, Failed, may_fall_back};
use crate::calls::Call;
use crate::errors;
use crate::figures::RouteCounters;
use crate::headers;
use crate::relay::{Head, Relay};
use crate::request::ClientRequest;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use turnstream_llm::Format;
use turnstream_llm::classify::{Failure, Source};
use turnstream_llm::client::{AttemptReport, HttpMethod, HttpRequest, RouteSecrets, ledger_row};
use turnstream_llm::retry::{Consumer, Decision, Policy, Quota, Retries, Shown};
use turnstream_llm::wait::Clock;
use turnstream_model::Chain;
use turnstream_model::attempts::{AttemptName, Begun, Verdict};
use turnstream_model::event::ErrorClass;
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;
use turnstream_provider::{Operation, Route};

/// The longest name of a model that is stored, in bytes.
const LONGEST_MODEL: usize = 256;

/// One request, from its first attempt to its end.
pub(crate) struct Run {
    pub(crate) shared: Arc<Shared>,
    /// The session whose process asks.
    pub(crate) session: Option<SessionId>,
    pub(crate) call: Option<Call>,
    /// The route that the client asked for, and its fallbacks.
    pub(crate) chain: Vec<Arc<Route>>,
    pub(crate) request: ClientRequest,
    pub(crate) relay: Arc<Relay>,
}

/// What follows a failed attempt.
enum Next {
    Again(Duration),
    OtherRoute,
    GiveUp,
}

impl Run {
    /// Answers the request.
    pub(crate) async fn run(self) {
        let relay = self.relay.clone();
        let counters = self.shared.counters(&self.chain[0].name);
        let outcome = tokio::select! {
            biased;
            outcome = self.answer() => outcome,
            () = relay.given_up() => "cancelled",
        };
        counters.ended(outcome);
        if let (Some(call), Some(session), "complete" | "broken") = (&self.call, &self.session, outcome) {
            call.answered(session, &self.request.headers);
        }
        relay.end(outcome);
    }

    async fn answer(&self) -> &'static str {
        let policy = Policy { window: Duration::MAX, quota: Quota::Fail, ..Policy::default() };
        let mut retries = Retries::new(policy.clone());
        let (mut index, mut tries, mut waited) = (0, 0, Duration::ZERO);
        loop {
            let route = &self.chain[index];
            tries += 1;
            let failed = match self.attempt(route, index, &self.shared.counters(&route.name)).await {
                Ok(()) => return "complete",
                Err(failed) => failed,
            };
            let class = failed.failure.class;
            tracing::info!(request = self.relay.id, route = route.name, %class, "an attempt failed");
            if failed.has_left.is_some() {
                return self.break_off(failed).await;
            }
            match self.next(&failed.failure, &mut retries, route, tries, waited) {
                Next::Again(after) => {
                    waited += after;
                    tokio::time::sleep(after).await;
                }
                Next::OtherRoute if index + 1 < self.chain.len() => {
                    index += 1;
                    (tries, retries) = (0, Retries::new(policy.clone()));
                    self.shared.counters(&self.chain[index].name).fell_back();
                }
                Next::OtherRoute | Next::GiveUp => return self.refuse(failed).await,
            }
        }
    }

    fn next(
        &self,
        failure: &Failure,
        retries: &mut Retries,
        route: &Route,
        tries: u32,
        waited: Duration,
    ) -> Next {
        let mut rng = fastrand::Rng::new();
        let decision =
            retries.decide(failure, &Shown::default(), Consumer::PlainWire, self.shared.now(), &mut rng);
        let otherwise = if may_fall_back(failure.class) { Next::OtherRoute } else { Next::GiveUp };
        match decision {
            Decision::Retry { after, .. }
                if tries < route.attempts && waited + after <= route.longest_wait =>
            {
                Next::Again(after)
            }
            Decision::Retry { .. } | Decision::Park { .. } | Decision::Fail { .. } | Decision::Truncate => {
                otherwise
            }
        }
    }

    /// One attempt, with its row in the ledger.
    async fn attempt(
        &self,
        route: &Arc<Route>,
        index: usize,
        counters: &RouteCounters,
    ) -> Result<(), Box<Failed>> {
        let request = self.http_request(route, index).map_err(Failed::of)?;
        let model = match (&route.model, &self.request.model) {
            (Some(model), _) if index > 0 => model.clone(),
            (_, Some(model)) => model.clone(),
            (model, None) => model.clone().unwrap_or_default(),
        };
        let secrets = RouteSecrets::of(&request.url, &request.headers);
        let model = self.stored_model(model, &secrets);
        self.relay.count_attempt();
        counters.attempted();
        let number = self.relay.attempts();
        let of_route = || SessionId::from(format!("llm/{}", self.chain[0].name));
        let session = self.session.clone().unwrap_or_else(of_route);
        let name = AttemptName { session, turn: self.relay.id.as_str().into(), number };
        let begun = Begun {
            name: name.clone(),
            step: 1,
            route: route.name.clone(),
            format: route.format.name().to_owned(),
            model,
            request: hash(&request.body),
            started: self.shared.now(),
        };
        // Counted tokens and lists of models are not billed, so they have no row.
        let is_recorded = self.request.operation == Operation::Generate;
        // It is there before the row is written, because the request may be dropped meanwhile.
        let mut row = Row { run: self, name, secrets: &secrets, is_recorded, is_written: false };
        if is_recorded && let Err(unkept) = self.shared.ledger.begin(begun).await {
            tracing::error!(request = self.relay.id, error = %Chain(&unkept), "no request was sent: it cannot be recorded");
            row.is_written = true;
            let message = "the gateway cannot record the request, so it was not sent; its log says why";
            return Err(Failed::of(Failure::new(ErrorClass::Internal, Source::Ours, message)));
        }
        if let (Some(call), true) = (&self.call, is_recorded) {
            call.add_row(&row.name);
        }
        let asked = Asked {
            http: &self.shared.http,
            route,
            operation: self.request.operation,
            is_stream: self.request.is_stream,
            request,
            secrets: &secrets,
            relay: &self.relay,
            told: self.relay.told(&route.name),
            now: self.shared.now(),
        };
        let Attempted { result, report } = asked.run().await;
        let (verdict, failure) = match &result {
            Ok(()) => (Verdict::Complete, None),
            Err(failed) => (Verdict::Failed, Some(&failed.failure)),
        };
        row.end(report, verdict, failure).await;
        result
    }

    /// The name of a model, as it is stored. A client chose it: it may be a key, or a megabyte long.
    fn stored_model(&self, mut model: String, secrets: &RouteSecrets) -> String {
        secrets.hide_in_text(&mut model);
        let safe = self.shared.redact.redact(&model);
        safe[..safe.floor_char_boundary(LONGEST_MODEL)].to_owned()
    }

    fn http_request(&self, route: &Route, index: usize) -> Result<HttpRequest, Failure> {
        let headers = headers::to_provider(&self.request.headers, route, index == 0).map_err(|error| {
            tracing::warn!(route = route.name, error = %Chain(&error), "the key of a route cannot be read");
            let message =
                format!("the key of route {:?} cannot be read; the gateway's log says why", route.name);
            Failure::new(ErrorClass::Auth, Source::Ours, message)
        })?;
        let body = match &route.model {
            Some(model) if index > 0 || self.request.model.is_none() => self.request.body_for(model),
            Some(_) | None => self.request.body.clone(),
        };
        let (method, body) = match self.request.operation {
            Operation::Models => (HttpMethod::Get, bytes::Bytes::new()),
            Operation::Generate | Operation::CountTokens => (HttpMethod::Post, body),
        };
        // The query was meant for the first provider, and may have a key.
        let query = if index == 0 { self.request.query.as_str() } else { "" };
        let url = format!("{}{query}", route.url_for(self.request.operation));
        Ok(HttpRequest { method, url, headers, body })
    }

    /// Ends a stream whose content has left, with the format's error.
    async fn break_off(&self, failed: Box<Failed>) -> &'static str {
        let Failed { failure, has_left, .. } = *failed;
        tracing::warn!(request = self.relay.id, class = %failure.class, "an answer broke off after content was sent");
        self.relay.send(errors::broken(self.format(), &failure, has_left.as_deref())).await;
        "broken"
    }

    /// Tells the client that there is no answer.
    async fn refuse(&self, failed: Box<Failed>) -> &'static str {
        let Failed { failure, answer, whole, .. } = *failed;
        if let Some((head, frames)) = whole
            && self.relay.open(head)
        {
            for frame in frames {
                self.relay.send(frame).await;
            }
            return "complete";
        }
        let mut told = answer.unwrap_or_else(|| {
            let mut own = errors::of_failure(self.format(), &failure);
            own.headers.extend(self.relay.told(&self.chain[0].name));
            own
        });
        if let Some(wait) = failure.wait
            && !told.headers.iter().any(|(name, _)| name == "retry-after")
        {
            told.headers.push(errors::retry_after(wait));
        }
        if !told.headers.iter().any(|(name, _)| name.starts_with("retry-after")) {
            // The retries are used up. Clients would multiply them with their own.
            told.headers.retain(|(name, _)| name != "x-should-retry");
            told.headers.push(("x-should-retry".to_owned(), "false".to_owned()));
        }
        self.relay.open(Head::Whole(told));
        "failed"
    }

    fn format(&self) -> Format {
        self.chain[0].format
    }
}

/// The row of an attempt that runs. If the request is dropped, the row ends as cancelled.
struct Row<'a> {
    run: &'a Run,
    name: AttemptName,
    secrets: &'a RouteSecrets,
    is_recorded: bool,
    is_written: bool,
}

impl Row<'_> {
    async fn end(&mut self, report: AttemptReport, verdict: Verdict, failure: Option<&Failure>) {
        self.is_written = true;
        if !self.is_recorded {
            return;
        }
        let shared = &self.run.shared;
        let mut ended = ledger_row(report, verdict, failure, shared.now(), &shared.redact);
        if let Some(call) = &self.run.call {
            let completion = ended.findings.completions.first();
            call.name_completion(completion.and_then(|completion| completion.id.as_deref()));
        }
        if let Some(evidence) = &mut ended.evidence {
            self.secrets.hide_in_bytes(evidence);
        }
        if let Err(unkept) = shared.ledger.end(self.name.clone(), ended).await {
            tracing::warn!(request = self.run.relay.id, error = %Chain(&unkept), "the end of an attempt was not recorded");
        }
    }
}

impl Drop for Row<'_> {
    fn drop(&mut self) {
        if self.is_written || !self.is_recorded {
            return;
        }
        let shared = &self.run.shared;
        let ended =
            ledger_row(AttemptReport::default(), Verdict::Cancelled, None, shared.now(), &shared.redact);
        let written = shared.ledger.end(self.name.clone(), ended);
        // The request is queued by now. Only its error is waited for.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(unkept) = written.await {
                    tracing::warn!(error = %Chain(&unkept), "the end of an attempt was not recorded");
                }
            });
        }
    }
}

/// The SHA-256 of a request in hexadecimal digits.
fn hash(body: &[u8]) -> String {
    Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Shared {
    /// The wall time.
    pub(crate) fn now(&self) -> Time {
        self.clock.wall()
    }
}
