//! Passwords that are right, wrong, rotated, or somewhere else.

use crate::fake::{Answer, Asked, Fake, directory, told};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use turnstream_opencode_client::{
    BusSettings, ClientError, FromEnv, FromFile, NoPassword, PasswordError, PasswordSource, Secret,
};

/// `opencode:new` and `lab:new`, as they are sent.
const RIGHT: &str = "Basic b3BlbmNvZGU6bmV3";
const LAB: &str = "Basic bGFiOm5ldw==";

/// Lets in who has the right password; the 401 is the captured one.
fn guard(right: &'static str) -> impl FnMut(&Asked) -> Answer + Send + 'static {
    move |asked| match asked.authorization.as_deref() {
        Some(sent) if sent == right => Answer::json(200, "{}"),
        _ => Answer::Say(401, "www-authenticate: Basic realm=\"Secure Area\"\r\n", String::new()),
    }
}

/// Passwords one after the other; the last stays. Counts how often a fresh one was asked for.
#[derive(Clone)]
struct Rotating {
    passwords: &'static [&'static str],
    asked: Arc<AtomicU32>,
}

impl Rotating {
    fn new(passwords: &'static [&'static str]) -> Self {
        Self { passwords, asked: Arc::new(AtomicU32::new(0)) }
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl PasswordSource for Rotating {
    async fn password(&self) -> Result<Option<Secret>, PasswordError> {
        Ok(Some(Secret::new(self.passwords[0])))
    }

    async fn refresh(&self) -> Result<Option<Secret>, PasswordError> {
        let place = self.asked.fetch_add(1, Ordering::SeqCst) as usize + 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(Some(Secret::new(self.passwords[place.min(self.passwords.len() - 1)])))
    }
}

#[tokio::test]
async fn a_rotated_password_is_asked_for_once_by_all_requests_together() {
    let fake = Fake::start(guard(RIGHT)).await;
    let source = Rotating::new(&["old", "new"]);
    let client = fake.client_with(source.clone(), BusSettings::default());
    let directory = directory();
    let together = tokio::join!(
        client.status(&directory),
        client.status(&directory),
        client.status(&directory),
        client.status(&directory)
    );
    together.0.unwrap();
    together.1.unwrap();
    together.2.unwrap();
    together.3.unwrap();
    client.status(&directory).await.unwrap();
    assert_eq!(source.asked(), 1);
}

#[tokio::test]
async fn a_password_that_stays_wrong_is_given_up_and_never_shown() {
    let fake = Fake::start(guard(RIGHT)).await;
    let source = Rotating::new(&["hunter1", "hunter2", "hunter3"]);
    let client = fake.client_with(source.clone(), BusSettings::default());
    let error = client.status(&directory()).await.unwrap_err();
    assert_eq!((error.status(), source.asked(), fake.asked().len()), (Some(401), 1, 2));
    assert_eq!(
        error.to_string(),
        "opencode refuses the password of user \"opencode\" for GET /session/status; check OPENCODE_SERVER_PASSWORD \
         and OPENCODE_SERVER_USERNAME of the server"
    );
    // A fixed one is not even tried twice.
    let fixed = fake.client_with(Secret::new("hunter4"), BusSettings::default());
    fixed.status(&directory()).await.unwrap_err();
    assert_eq!(fake.asked().len(), 3);
    assert!(!format!("{error:?} {client:?} {fixed:?}").contains("hunter"));
}

#[tokio::test]
async fn a_health_check_does_not_wait_for_a_wrong_password_to_become_right() {
    let fake = Fake::start(guard(RIGHT)).await;
    let client = fake.client_with(Secret::new("wrong"), BusSettings::default());
    assert!(matches!(client.health_check().await, Err(ClientError::Unauthorized { .. })));
    assert_eq!(fake.asked().len(), 1);
}

#[tokio::test]
async fn a_stream_heals_as_a_request_does() {
    let mut guard = guard(RIGHT);
    let mut fake = Fake::start(move |asked| match guard(asked) {
        Answer::Say(200, ..) => Answer::Stream,
        refused => refused,
    })
    .await;
    let client = fake.client_with(Rotating::new(&["old", "new"]), BusSettings::default());
    let mut subscription = client.bus(&directory()).subscribe("ses_1");
    let mut stream = fake.stream().await;
    stream.say_connected().await;
    assert_eq!(told(&mut subscription).await, "connected, gap false");
}

#[tokio::test]
async fn a_stream_whose_password_is_refused_is_closed_at_once() {
    let fake = Fake::start(guard(RIGHT)).await;
    let client = fake.client_with(Rotating::new(&["old", "older"]), BusSettings::default());
    let mut subscription = client.bus(&directory()).subscribe("ses_1");
    let closed = told(&mut subscription).await;
    assert!(
        closed.starts_with("closed: the event stream is refused: opencode refuses the password"),
        "{closed}"
    );
    assert_eq!(fake.asked().len(), 2, "once with each password");
}

#[tokio::test]
async fn a_file_is_read_again_and_a_missing_source_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "old\n").unwrap();
    let fake = Fake::start(guard(RIGHT)).await;
    let client = fake.client_with(FromFile::new(&file), BusSettings::default());
    assert!(matches!(client.status(&directory()).await, Err(ClientError::Unauthorized { .. })));
    std::fs::write(&file, "new\n").unwrap();
    client.status(&directory()).await.unwrap();

    let client = fake.client_with(FromFile::new(folder.path().join("none")), BusSettings::default());
    let error = client.status(&directory()).await.unwrap_err().to_string();
    assert!(error.starts_with("cannot read the password file"), "{error}");
    let client = fake.client_with(FromEnv::new("TURNSTREAM_TEST_UNSET"), BusSettings::default());
    let error = client.status(&directory()).await.unwrap_err().to_string();
    assert!(error.contains("TURNSTREAM_TEST_UNSET is not set"), "{error}");
}

#[tokio::test]
async fn another_user_name_can_be_configured_and_none_is_sent_without_a_password() {
    let fake = Fake::start(guard(LAB)).await;
    let client = fake.client_with(Secret::new("new").with_user("lab"), BusSettings::default());
    client.status(&directory()).await.unwrap();
    let client = fake.client_with(NoPassword, BusSettings::default());
    client.status(&directory()).await.unwrap_err();
    let sent: Vec<Option<String>> = fake.asked().into_iter().map(|asked| asked.authorization).collect();
    assert_eq!(sent, [Some(LAB.to_owned()), None]);
}
