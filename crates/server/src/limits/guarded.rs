//! The body of a response together with what has to live as long as the body.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body with a guard, which is dropped with it.
pub(crate) struct Guarded<G> {
    body: Body,
    _guard: G,
}

impl<G: Unpin + Send + 'static> Guarded<G> {
    /// Ties the guard to the body of a response.
    pub(crate) fn response(response: Response, guard: G) -> Response {
        response.map(|body| Body::new(Self { body, _guard: guard }))
    }
}

impl<G: Unpin> HttpBody for Guarded<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
