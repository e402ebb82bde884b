//! Secrets in the query of a request. They are taken out, so that nothing behind the access check sees them.

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::Response;

/// The parameter in which opencode's web page sends a password: the pair of Basic, in base64.
const AUTH_TOKEN: &str = "auth_token";

/// Takes a parameter out of the query. The last one of the name counts.
pub(super) fn take(request: &mut Request, name: &str) -> Option<String> {
    let query = request.uri().query()?;
    let mut found = None;
    let is_other = |pair: &&str| match pair.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
        Some(value) => {
            found = Some(value.to_owned());
            false
        }
        None => true,
    };
    let rest: Vec<&str> = query.split('&').filter(is_other).collect();
    let found = found?;
    if let Some(uri) = with_query(request.uri(), &rest.join("&")) {
        *request.uri_mut() = uri;
    }
    Some(found)
}

/// Reads `auth_token` as the header `Authorization`, for paths below this one. The header wins.
pub(crate) async fn auth_token(
    State(below): State<&'static str>,
    mut request: Request,
    next: Next,
) -> Response {
    if request.uri().path().starts_with(below)
        && let Some(pair) = take(&mut request, AUTH_TOKEN)
        // Base64 has three characters that some clients write as codes.
        && let Ok(basic) = format!("Basic {}", pair.replace("%3D", "=").replace("%2B", "+").replace("%2F", "/")).parse()
    {
        let basic: HeaderValue = basic;
        request.headers_mut().entry(header::AUTHORIZATION).or_insert(basic);
    }
    next.run(request).await
}

fn with_query(uri: &Uri, query: &str) -> Option<Uri> {
    let mut parts = uri.clone().into_parts();
    let path = uri.path();
    let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    parts.path_and_query = Some(target.parse().ok()?);
    Uri::from_parts(parts).ok()
}
