//! Requests per second of one client, with a burst. A stream counts once, when it is opened.

use super::{ClientAddress, Limit};
use crate::access::Connection;
use crate::app::App;
use crate::caller::Caller;
use crate::problem::{Kind, Problem};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most clients with a rate of their own. The others share one.
const MOST_CLIENTS: usize = 4_096;
/// Routes without a limit: they are cheap, and tell an operator what is wrong.
const UNLIMITED: [&str; 3] = ["/v1/health", "/v1/ready", "/metrics"];

/// Who sends requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Client {
    Token(Arc<str>),
    Address(ClientAddress),
    Other,
}

/// The rates of all clients.
pub(crate) struct RequestRates {
    /// The time that one request takes of a client's rate.
    interval: Duration,
    /// How far a client may be ahead of its rate.
    ahead: Duration,
    /// The moment at which each client is back at its rate. A client that is not here is not ahead.
    clients: Mutex<HashMap<Client, Instant>>,
}

/// Refuses requests that come faster than the client's rate.
pub(crate) async fn limit_requests(
    State(app): State<Arc<App>>,
    Caller(token): Caller,
    request: Request,
    next: Next,
) -> Response {
    if UNLIMITED.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let peer = request.extensions().get::<Connection>().map(|from| ClientAddress::from(from.peer.ip()));
    let client = token.map(Client::Token).or(peer.map(Client::Address)).unwrap_or(Client::Other);
    let Err(wait) = app.in_use.requests.take(client, Instant::now()) else { return next.run(request).await };
    app.in_use.refusals.count(Limit::RequestsPerSecond);
    let (rate, burst) = (app.options.limits.requests_per_second, app.options.limits.requests_burst);
    let detail = format!(
        "more than {rate} requests per second, or {burst} at once; send fewer, or raise `requests_per_second` in [limits]"
    );
    let seconds = wait.as_secs() + 1;
    Problem::new(Kind::TooManyRequests, detail).with("limit", rate).retry_after(seconds).into_response()
}

impl RequestRates {
    pub(crate) fn new(per_second: u64, burst: u64) -> Self {
        let interval = Duration::from_nanos(1_000_000_000 / per_second.max(1));
        let ahead = interval.saturating_mul(u32::try_from(burst.max(1) - 1).unwrap_or(u32::MAX));
        Self { interval, ahead, clients: Mutex::default() }
    }

    /// Counts a request, or returns how long the client has to wait.
    fn take(&self, client: Client, now: Instant) -> Result<(), Duration> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let client = if clients.len() < MOST_CLIENTS || clients.contains_key(&client) {
            client
        } else {
            clients.retain(|_, back| *back > now);
            if clients.len() < MOST_CLIENTS { client } else { Client::Other }
        };
        let back = clients.entry(client).or_insert(now);
        let ahead = back.saturating_duration_since(now);
        if ahead > self.ahead {
            return Err(ahead - self.ahead);
        }
        *back = now.max(*back) + self.interval;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Client, ClientAddress, MOST_CLIENTS, RequestRates};
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::{Duration, Instant};

    fn taken(rates: &RequestRates, client: &Client, now: Instant, tries: usize) -> usize {
        (0..tries).filter(|_| rates.take(client.clone(), now).is_ok()).count()
    }

    #[test]
    fn a_client_has_a_burst_and_then_its_rate_and_takes_nothing_from_others() {
        let rates = RequestRates::new(10, 5);
        let (one, other) = (Client::Token("one".into()), Client::Token("other".into()));
        let begin = Instant::now();
        assert_eq!(taken(&rates, &one, begin, 100), 5);
        assert!(rates.take(one.clone(), begin).unwrap_err() <= Duration::from_millis(100));
        assert_eq!(taken(&rates, &other, begin, 100), 5);
        assert_eq!(taken(&rates, &one, begin + Duration::from_millis(200), 100), 2);
        assert_eq!(taken(&rates, &one, begin + Duration::from_secs(60), 100), 5);
    }

    #[test]
    fn many_clients_take_bounded_memory() {
        let rates = RequestRates::new(10, 1);
        let client =
            |number: u32| Client::Address(ClientAddress::from(IpAddr::V4(Ipv4Addr::from_bits(number))));
        let now = Instant::now();
        let all = u32::try_from(MOST_CLIENTS).unwrap() * 2;
        let taken = (0..all).filter(|number| rates.take(client(*number), now).is_ok()).count();
        assert_eq!(taken, MOST_CLIENTS + 1, "the others share one");
        assert!(rates.clients.lock().unwrap().len() <= MOST_CLIENTS + 1);
        assert!(rates.take(client(all), now + Duration::from_secs(1)).is_ok());
        assert_eq!(rates.clients.lock().unwrap().len(), 1, "who is at its rate is forgotten");
    }
}
