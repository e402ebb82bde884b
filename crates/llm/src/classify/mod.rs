//! The error class of a failure.
//!
//! The class comes from the transport's chain of causes, the status, the body's type or code, an error
//! event in the stream, or a rule of the provider's profile. It never comes from prose: a message for
//! people decides nothing, whoever wrote it. In an earlier product the text "Tool execution aborted" was
//! matched as the cause of a failure and shown as a usage limit.

mod failure;
mod outcome;
mod report;
mod root_cause;
mod status;
mod transport;
mod words;

pub use failure::{Failure, Secondary, Source, TimeoutKind};
pub use report::Report;
pub use root_cause::RootCause;
pub use transport::{Phase, transport};

use crate::attempt::{ProfileRule, ProviderError};
use crate::delay::{self, Headers};
use serde_json::Value;
use std::time::Duration;
use turnstream_model::event::ErrorClass;
use turnstream_model::time::Time;
use words::Weight;

/// Headers with the provider's id of the request.
const REQUEST_IDS: [&str; 5] =
    ["x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "cf-ray"];

/// The header with the error's word, of Amazon Bedrock: `ThrottlingException:http://…`.
const ERROR_TYPE: &str = "x-amzn-errortype";
/// A quota per day does not come back earlier. Google gives a delay of seconds with it all the same.
const SHORTEST_DAY: Duration = Duration::from_secs(3600);

/// The head of a response, with which its failures are classified.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The HTTP status.
    pub status: u16,
    /// Its headers.
    pub headers: &'a Headers,
    /// When the response arrived.
    pub now: Time,
}

impl Answer<'_> {
    /// The provider's id of the request.
    pub fn request_id(&self) -> Option<String> {
        REQUEST_IDS.iter().find_map(|name| self.headers.get(name)).map(str::to_owned)
    }

    /// Classifies a body that is not an event stream, under any status.
    pub fn refusal(&self, body: &[u8]) -> Failure {
        let json: Option<Value> = turnstream_json::from_slice(body).ok();
        if let Some((report, json)) = json.as_ref().and_then(|json| Some((Report::of(json)?, json))) {
            return self.reported(&report, Some(json), Source::Body);
        }
        if self.error_type().is_some_and(|word| words::class(word).is_some()) {
            let message = json.as_ref().and_then(|json| json.get("message")).and_then(Value::as_str);
            return self.reported(&Report::of_parts(None, None, message), json.as_ref(), Source::Body);
        }
        let class = status::class(self.status).unwrap_or(ErrorClass::NotAStream);
        let source = if class == ErrorClass::NotAStream { Source::Stream } else { Source::Status };
        let message = match self.headers.get("location") {
            Some(to) if (300..400).contains(&self.status) => {
                format!("the provider redirects to {}; give the route that address", without_keys(to))
            }
            // A completion that was not streamed. Its beginning is text of a model, which is not repeated.
            Some(_) | None if class == ErrorClass::NotAStream && is_json(body) => {
                "a JSON document where a stream should be".to_owned()
            }
            Some(_) | None => prefix(body),
        };
        let mut failure = self.failure(class, source, message, json.as_ref());
        // A whole document that is not understood would come again, and be billed again.
        failure.is_final = class == ErrorClass::NotAStream && json.is_some();
        failure
    }

    /// Classifies an error object of the provider.
    pub fn provider_error(&self, error: &ProviderError, source: Source) -> Failure {
        let json: Option<Value> = turnstream_json::from_str(&error.raw).ok();
        let mut report = json.as_ref().and_then(Report::of).unwrap_or_else(|| {
            Report::of_parts(error.kind.as_deref(), error.code.as_deref(), Some(&error.message))
        });
        report.status = report.status.or(error.status.filter(|status| *status != self.status));
        match error.profile {
            None => self.reported(&report, json.as_ref(), source),
            Some(ProfileRule::Overflow) => self.failure(
                ErrorClass::ContextOverflow,
                Source::Profile,
                error.message.clone(),
                json.as_ref(),
            ),
            Some(ProfileRule::Throttled) => {
                self.failure(ErrorClass::RateLimited, Source::Profile, error.message.clone(), json.as_ref())
            }
            Some(ProfileRule::ErrorAsContent) => {
                // By the profile this text is an error that begins with its code, such as
                // `Throttling: TPM(10680324/10000000)`.
                let code = error.message.split(':').next().unwrap_or_default();
                let class = words::class(code).map_or(ErrorClass::ProviderError, |(class, _)| class);
                self.failure(class, Source::Profile, error.message.clone(), None)
            }
        }
    }

    /// The word in the header.
    fn error_type(&self) -> Option<&str> {
        self.headers.get(ERROR_TYPE)?.split(':').next()
    }

    fn reported(&self, report: &Report, json: Option<&Value>, source: Source) -> Failure {
        let (class, word) = self.class_of(report);
        let message = report.message.clone().unwrap_or_else(|| format!("HTTP status {}", self.status));
        let mut failure = self.failure(class, source, message, json);
        failure.word = word;
        failure.status = report.status.or(failure.status);
        if report.is_quota_of_a_day {
            failure.wait = failure.wait.filter(|wait| *wait >= SHORTEST_DAY);
        }
        failure
    }

    /// The body's words win over the status: a 401 whose body says `ModelError` is about the model. Words
    /// that providers put on every error do not win.
    fn class_of(&self, report: &Report) -> (ErrorClass, Option<String>) {
        if report.is_quota_of_a_day {
            return (ErrorClass::QuotaExhausted, Some("QuotaFailure".to_owned()));
        }
        let of_header = self.error_type();
        let word_of = |wanted: Weight| {
            report.words.iter().map(String::as_str).chain(of_header).find_map(|word| {
                let (class, weight) = words::class(word)?;
                // Groq: a request above the limit per minute. It will never fit, whatever the word says.
                let class = match class {
                    ErrorClass::RateLimited if self.status == 413 => ErrorClass::ContextOverflow,
                    class => class,
                };
                (weight == wanted).then(|| (class, Some(word.to_owned())))
            })
        };
        let statuses = [report.status, Some(self.status)].into_iter().flatten();
        let status_of = |is_wanted: fn(u16) -> bool| {
            let class = statuses.clone().filter(|status| is_wanted(*status)).find_map(status::class)?;
            Some((class, None))
        };
        word_of(Weight::Telling)
            .or_else(|| status_of(status::is_telling))
            .or_else(|| word_of(Weight::Vague))
            .or_else(|| status_of(|_| true))
            .unwrap_or((ErrorClass::ProviderError, None))
    }

    fn failure(&self, class: ErrorClass, source: Source, message: String, json: Option<&Value>) -> Failure {
        // A rate limit inside a 200 has the same wording as one under a 429.
        let worded = if class == ErrorClass::RateLimited { 429 } else { self.status };
        let hints = delay::read(self.headers, Some(worded), json, self.now);
        Failure {
            status: Some(self.status),
            request_id: self.request_id().or_else(|| Some(json?.get("request_id")?.as_str()?.to_owned())),
            wait: delay::longest(&hints),
            ..Failure::new(class, source, message)
        }
    }
}

/// A URL without query and credentials. A redirect repeats the requested URL, which may contain a key.
fn without_keys(address: &str) -> String {
    let shown = address.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = shown.split_once("//") else { return shown.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}//{host}{path}")
}

/// Whether a body begins like JSON.
fn is_json(body: &[u8]) -> bool {
    let start = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii_start();
    matches!(start.first(), Some(b'{' | b'['))
}

/// What is shown of an unknown body: the title of a page, or the first 512 characters.
fn prefix(body: &[u8]) -> String {
    const SHOWN: usize = 512;
    let text = String::from_utf8_lossy(&body[..body.len().min(64 * 1024)]);
    let title = text.find("<title>").and_then(|at| text[at + "<title>".len()..].split("</title>").next());
    let shown: String = title.unwrap_or(&text).trim().chars().take(SHOWN).collect();
    if shown.is_empty() { "an empty body".to_owned() } else { shown }
}
