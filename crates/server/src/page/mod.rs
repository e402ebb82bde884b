//! The page at `/`: a browser signs in, and watches and drives sessions. Its files are in the binary.
//!
//! `bundle/` is built from `web/` by `cargo xtask page`, and checked in: a build needs no Node.

use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};

/// Only files of this page, and requests to this gateway. HTML enters the page only through the policy of its
/// sanitiser, and a script only through the policy that lets its worker through.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types dompurify turnstream";

/// One file of the page.
struct File {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

/// They need no token: they hold nothing, and the page has none when it is loaded.
const FILES: [File; 6] = [
    File { path: "/", kind: "text/html; charset=utf-8", bytes: include_bytes!("bundle/index.html") },
    File { path: "/page.css", kind: "text/css; charset=utf-8", bytes: include_bytes!("bundle/page.css") },
    File {
        path: "/page.js",
        kind: "text/javascript; charset=utf-8",
        bytes: include_bytes!("bundle/page.js"),
    },
    File {
        path: "/worker.js",
        kind: "text/javascript; charset=utf-8",
        bytes: include_bytes!("bundle/worker.js"),
    },
    File {
        path: "/licenses.txt",
        kind: "text/plain; charset=utf-8",
        bytes: include_bytes!("bundle/licenses.txt"),
    },
    File { path: "/icon.svg", kind: "image/svg+xml", bytes: include_bytes!("bundle/icon.svg") },
];

/// Whether this is a path of the page.
pub(crate) fn has(path: &str) -> bool {
    FILES.iter().any(|file| file.path == path)
}

/// The paths of the page, and what answers them.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>()
-> impl Iterator<Item = (&'static str, MethodRouter<S>)> {
    FILES.iter().map(|file| (file.path, get(async || answer(file))))
}

fn answer(file: &'static File) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(file.kind)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    ];
    (headers, file.bytes)
}
