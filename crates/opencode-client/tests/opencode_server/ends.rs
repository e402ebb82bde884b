//! Messages that cannot be answered: each fails clearly and soon.

use crate::lab::Lab;
use crate::seen::Watch;
use crate::support::{ANSWER, SOON};
use std::time::Instant;
use turnstream_fake_provider::Step;
use turnstream_opencode_client::{Client, ClientInfo, Directory, Secret, SessionRef, Timeouts, TurnSettings};
use turnstream_testkit::agents::Opencode;

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_cannot_be_answered() {
    let lab = Lab::start([Step::text(ANSWER).always()]).await;
    tokio::join!(
        a_wrong_password_is_a_401(&lab),
        an_unknown_session_is_a_404(&lab),
        an_unknown_model_is_an_error_and_the_next_message_works(&lab),
        an_unknown_agent_is_an_error_and_the_next_message_works(&lab),
        a_model_without_a_provider_is_refused(&lab),
        a_server_that_is_not_there_is_a_broken_way(&lab),
    );
}

async fn a_wrong_password_is_a_401(lab: &Lab) {
    let session = lab.session().await;
    let (password, timeouts) = (Secret::new("wrong"), Timeouts::default());
    let client = Client::new(&lab.proxy.url(), password, timeouts, ClientInfo::default()).unwrap();
    let seen = Watch::new(client.send_message(&session, "Hello", TurnSettings::default())).ended().await;
    let fault = seen.fault();
    assert_eq!((fault.code, fault.class.as_str()), (401, "auth"), "{fault:?}");
    assert!(fault.message.contains("password"), "{fault:?}");
    assert_eq!(lab.prompts(&session), 0);
}

async fn an_unknown_session_is_a_404(lab: &Lab) {
    let directory = Directory::new(lab.opencode.work()).unwrap();
    let session = SessionRef::new("ses_0000000000000000000000000000", directory).unwrap();
    let seen = lab.ask(&session, "Hello").ended().await;
    assert_eq!(seen.fault().code, 404, "{:?}", seen.fault());
    assert_eq!(lab.prompts(&session), 1, "it is not repeated");
}

async fn an_unknown_model_is_an_error_and_the_next_message_works(lab: &Lab) {
    let settings = TurnSettings { model: Some("scripted/nobody".to_owned()), ..TurnSettings::default() };
    let fault = fails_soon(lab, settings).await;
    assert!(fault.starts_with("-2 agent_error: ") && fault.contains("nobody"), "{fault}");
}

async fn an_unknown_agent_is_an_error_and_the_next_message_works(lab: &Lab) {
    let settings = TurnSettings { mode: Some("nobody".to_owned()), ..TurnSettings::default() };
    let fault = fails_soon(lab, settings).await;
    assert!(fault.starts_with("-2 agent_error: ") && fault.contains("nobody"), "{fault}");
}

async fn a_model_without_a_provider_is_refused(lab: &Lab) {
    let settings = TurnSettings { model: Some("nobody".to_owned()), ..TurnSettings::default() };
    let fault = fails_soon(lab, settings).await;
    assert!(fault.starts_with("-2 model_unavailable: ") && fault.contains("\"nobody\""), "{fault}");
}

/// The error of such a message. It comes long before any timeout, and the next message is answered.
async fn fails_soon(lab: &Lab, settings: TurnSettings) -> String {
    let session = lab.session().await;
    let start = Instant::now();
    let seen = lab.send(&session, "Hello", settings).ended().await;
    assert!(start.elapsed() < SOON / 2, "{:?}", start.elapsed());
    let fault = seen.fault();
    // opencode goes on with the model and the agent of the last message unless it is told another.
    let model = Some(format!("scripted/{}", Opencode::MODEL));
    let settings = TurnSettings { model, mode: Some("build".to_owned()), ..TurnSettings::default() };
    let next = lab.send(&session, "Hello again", settings).ended().await;
    assert_eq!((next.text().as_str(), next.end().as_str()), (ANSWER, "end_turn"));
    assert_eq!(lab.aborts(&session), 0);
    format!("{} {}: {}", fault.code, fault.class.as_str(), fault.message)
}

async fn a_server_that_is_not_there_is_a_broken_way(lab: &Lab) {
    let session = lab.session().await;
    let (password, timeouts) = (Secret::new("any"), Timeouts::default());
    // Nobody listens on the discard port.
    let client = Client::new("http://127.0.0.1:9", password, timeouts, ClientInfo::default()).unwrap();
    let client = client.with_bus_settings(crate::support::quick());
    let seen = Watch::new(client.send_message(&session, "Hello", TurnSettings::default())).ended().await;
    assert_eq!((seen.fault().code, seen.fault().class.as_str()), (-3, "unreachable"), "{:?}", seen.fault());
}
