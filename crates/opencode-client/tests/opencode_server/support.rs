//! A real server, a client for it, and words for what is told.

use std::time::{Duration, Instant};
use turnstream_fake_provider::{Provider, Script, Step};
use turnstream_opencode_client::event::Kind;
use turnstream_opencode_client::{
    BusItem, BusSettings, Client, ClientInfo, Directory, PartContent, Prompt, PromptPart, Secret, SessionRef,
    Subscription, Timeouts, ids,
};
use turnstream_testkit::agents::Opencode;

/// How long nothing may come before a test gives up.
pub(crate) const SOON: Duration = Duration::from_secs(400);
/// What the model always says.
pub(crate) const ANSWER: &str = "Hello from the script, in more than one delta.";

/// A provider that gives everybody the same answer.
pub(crate) async fn provider() -> Provider {
    provider_of([Step::text(ANSWER).always()]).await
}

pub(crate) async fn provider_of(steps: impl IntoIterator<Item = Step>) -> Provider {
    let titles = Step::text("A title").for_model(Opencode::TITLE_MODEL).always();
    Provider::start(Script::new([titles].into_iter().chain(steps))).await.unwrap()
}

pub(crate) async fn opencode(provider: &Provider) -> Opencode {
    Opencode::start(&provider.openai_base_url()).await.unwrap()
}

pub(crate) fn client(base_url: &str) -> Client {
    client_as(base_url, ClientInfo::default())
}

pub(crate) fn client_as(base_url: &str, info: ClientInfo) -> Client {
    let password = Secret::new(Opencode::PASSWORD);
    Client::new(base_url, password, Timeouts::default(), info).unwrap().with_bus_settings(quick())
}

/// Short pauses, so that tests are.
pub(crate) fn quick() -> BusSettings {
    BusSettings { first_pause: Duration::from_millis(100), ..BusSettings::default() }
}

pub(crate) fn work(opencode: &Opencode) -> Directory {
    Directory::new(opencode.work()).unwrap()
}

pub(crate) fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_millis().try_into().unwrap()
}

pub(crate) fn prompt(session: &SessionRef, name: &str, text: &str) -> Prompt {
    let ids = ids::for_prompt(&session.id, name, now_ms());
    let part = PromptPart { id: ids.part(0), content: PartContent::Text(text.to_owned()) };
    Prompt { message_id: ids.message(), parts: vec![part], model: None, agent: None }
}

pub(crate) async fn next(subscription: &mut Subscription) -> BusItem {
    tokio::time::timeout(SOON, subscription.next()).await.expect("nothing comes")
}

/// Waits for the next connection. On a busy machine a server may take too long to answer the first attempts.
pub(crate) async fn connected(subscription: &mut Subscription) -> bool {
    loop {
        match next(subscription).await {
            BusItem::Connected { gap } => return gap,
            BusItem::Lost { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The sessions and types of the events up to the idle of this session, and the text it streamed.
pub(crate) async fn until_idle(
    subscription: &mut Subscription,
    session: &str,
) -> (Vec<(String, String)>, String) {
    let (mut events, mut text) = (Vec::new(), String::new());
    loop {
        let BusItem::Event(event) = next(subscription).await else { continue };
        let of = event.session().unwrap_or_default().to_owned();
        if let Kind::Delta(delta) = &event.kind
            && of == session
        {
            text.push_str(&delta.delta);
        }
        let idle = event.kind == Kind::Idle && of == session;
        events.push((of, event.kind.name().to_owned()));
        if idle {
            return (events, text);
        }
    }
}

/// Looks until something is there.
pub(crate) async fn within<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < SOON, "nothing within {SOON:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
