//! Bodies of requests: JSON objects with known members only, of bounded size and within a bounded time.

use crate::app::App;
use crate::json_errors;
use crate::limits::{Buffer, BufferError};
use crate::problem::{Kind, Problem};
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt, Limited};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;
use std::sync::Arc;
use std::time::Duration;
use turnstream_json::Lenient;

/// Most bytes of a body.
pub(crate) const LIMIT: usize = 10 << 20;
/// Most bytes that are read and discarded of a body that is too large: a client that is still sending does
/// not read the answer.
const DISCARDED: usize = 64 << 20;

/// A JSON body.
pub(crate) struct Strict<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Strict<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        check_type(request.headers())?;
        parse(&read(request, app).await?).map(Self)
    }
}

/// Most bytes of a body from a client that has not shown a token, and the time in which it must arrive.
const SMALL: usize = 4 << 10;
const SMALL_WITHIN: Duration = Duration::from_secs(5);

/// A JSON body from a client that has not shown a token. It takes nothing of what bodies of others need.
pub(crate) struct Small<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Small<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Self, Problem> {
        check_type(request.headers())?;
        let whole = Limited::new(request.into_body(), SMALL).collect();
        match tokio::time::timeout(SMALL_WITHIN, whole).await {
            Ok(Ok(whole)) => parse(&whole.to_bytes()).map(Self),
            Ok(Err(error)) => {
                let detail = format!("the body could not be read: {error}; it may have {SMALL} bytes");
                Err(Problem::new(Kind::BadBody, detail))
            }
            Err(_) => {
                let detail = format!("the body was not complete after {SMALL_WITHIN:?}; send it again");
                Err(Problem::new(Kind::SlowBody, detail))
            }
        }
    }
}

/// Like [`Strict`], but no body counts as an empty object.
pub(crate) struct Optional<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Optional<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let headers = request.headers().clone();
        let bytes = read(request, app).await?;
        if bytes.trim_ascii().is_empty() {
            return parse(b"{}").map(Self);
        }
        check_type(&headers)?;
        parse(&bytes).map(Self)
    }
}

/// A page of another site can send a body without asking the gateway first, but not with this type.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    check_content_type(headers, "application/json", "curl: --json instead of -d")
}

/// Refuses a body of another type than this one.
pub(crate) fn check_content_type(headers: &HeaderMap, wanted: &str, with_curl: &str) -> Result<(), Problem> {
    let mut all = headers.get_all(header::CONTENT_TYPE).iter();
    let given = all.next().map(|given| given.to_str().unwrap_or_default());
    let essence = given.and_then(|given| given.split(';').next()).unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(wanted) && all.next().is_none() {
        return Ok(());
    }
    let given = given.map_or_else(
        || "the body has no content type".to_owned(),
        |given| format!("the content type of the body is {given:?}"),
    );
    let detail = format!("{given}; send it with `Content-Type: {wanted}` ({with_curl})");
    Err(Problem::new(Kind::NotJson, detail))
}

/// Receives the whole body into memory that is counted.
async fn read(request: Request, app: &App) -> Result<Buffer, Problem> {
    let within = app.options.body;
    let length =
        request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let asks_first = request.headers().contains_key(header::EXPECT);
    let mut body = request.into_body();
    if length.is_some_and(|length: usize| length > LIMIT) {
        if !asks_first {
            discard(body).await;
        }
        return Err(too_large());
    }
    let mut buffer = app.in_use.bodies.buffer(length.unwrap_or(LIMIT));
    let given_up = buffer.given_up();
    let received = tokio::select! {
        received = tokio::time::timeout(within, receive(&mut body, &mut buffer)) => received,
        () = given_up => return Err(app.in_use.bodies.refusal()),
    };
    match received {
        Ok(Ok(())) => Ok(buffer),
        Ok(Err(ReceiveError::Buffer(error))) => {
            drop(buffer);
            discard(body).await;
            Err(match error {
                BufferError::TooLong => too_large(),
                BufferError::Exhausted => app.in_use.bodies.refusal(),
            })
        }
        Ok(Err(ReceiveError::Broken(error))) => {
            Err(Problem::new(Kind::BadBody, format!("the body broke off: {error}; send it again")))
        }
        Err(_) => {
            let detail = format!("the body was not complete after {within:?}; send it again");
            Err(Problem::new(Kind::SlowBody, detail))
        }
    }
}

/// Why a body was not received.
enum ReceiveError {
    Broken(axum::Error),
    Buffer(BufferError),
}

async fn receive(body: &mut Body, buffer: &mut Buffer) -> Result<(), ReceiveError> {
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame.map_err(ReceiveError::Broken)?.data_ref() {
            buffer.add(data).await.map_err(ReceiveError::Buffer)?;
        }
    }
    Ok(())
}

/// Reads what a client still sends, so that it reads the answer.
pub(crate) async fn discard(body: Body) {
    let discarded = tokio::time::timeout(Duration::from_secs(5), async {
        let mut rest = Limited::new(body, DISCARDED);
        while let Some(Ok(_)) = rest.frame().await {}
    });
    if discarded.await.is_err() {
        tracing::debug!("a client is still sending a body that was refused");
    }
}

fn too_large() -> Problem {
    let detail =
        format!("a body may have {} MiB; put larger content into a file and send its path", LIMIT >> 20);
    Problem::new(Kind::TooLarge, detail).with("limit", LIMIT)
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Serde would accept a list of values in the right order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        serde_json::from_slice::<IgnoredAny>(bytes).map_err(|error| not_json(&error))?;
        return Err(Problem::new(Kind::BadBody, "the body must be a JSON object, {…}"));
    }
    whole(bytes).or_else(|problem| match std::str::from_utf8(bytes).ok().and_then(Lenient::new) {
        Some(mut json) => serde_path_to_error::deserialize(&mut json).map_err(|error| unfit(&error)),
        None => Err(problem),
    })
}

fn whole<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| unfit(&error))?;
    json.end().map_err(|error| not_json(&error))?;
    Ok(value)
}

fn not_json(error: &serde_json::Error) -> Problem {
    let problem =
        Problem::new(Kind::BadJson, format!("the body is not JSON: {}", json_errors::of_json(error)));
    problem.with("line", error.line()).with("column", error.column())
}

fn unfit(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let (path, inner) = (error.path().to_string(), error.inner());
    match inner.classify() {
        Category::Syntax | Category::Eof | Category::Io => not_json(inner),
        Category::Data => {
            let problem = json_errors::of_member(inner);
            if json_errors::is_unknown_field(inner) {
                return Problem::new(Kind::UnknownField, problem).with("member", path);
            }
            // A dot stands for the whole body.
            let detail = if path == "." { problem } else { format!("{path}: {problem}") };
            Problem::new(Kind::BadBody, detail)
        }
    }
}
