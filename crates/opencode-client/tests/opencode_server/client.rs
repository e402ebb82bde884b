//! REST against the real server.

use crate::support::{ANSWER, client, connected, opencode, prompt, provider, until_idle, work};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use turnstream_opencode_client::{
    Client, ClientError, ClientInfo, Directory, PasswordError, PasswordSource, PermissionReply, Secret,
    SessionRef, Timeouts,
};
use turnstream_testkit::agents::Opencode;

/// A wrong password at first, the right one when asked again.
struct Rotated(Arc<AtomicU32>);

impl PasswordSource for Rotated {
    async fn password(&self) -> Result<Option<Secret>, PasswordError> {
        Ok(Some(Secret::new("of yesterday")))
    }

    async fn refresh(&self) -> Result<Option<Secret>, PasswordError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Some(Secret::new(Opencode::PASSWORD)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_passwords() {
    let provider = provider().await;
    let opencode = opencode(&provider).await;
    let url = opencode.base_url();
    assert_eq!(client(url).health_check().await.unwrap().version, "1.18.33");

    let with =
        |password: Secret| Client::new(url, password, Timeouts::default(), ClientInfo::default()).unwrap();
    let error = with(Secret::new("wrong")).health_check().await.unwrap_err();
    assert!(matches!(error, ClientError::Unauthorized { .. }), "{error}");
    let other = Secret::new(Opencode::PASSWORD).with_user("turnstream");
    let other = Client::new(url, other, Timeouts::default(), ClientInfo::default()).unwrap();
    assert_eq!(other.health_check().await.unwrap_err().status(), Some(401));

    let asked = Arc::new(AtomicU32::new(0));
    let rotated = Rotated(Arc::clone(&asked));
    let healed = Client::new(url, rotated, Timeouts::default(), ClientInfo::default()).unwrap();
    let directory = work(&opencode);
    healed.ensure_session(None, &directory, None).await.unwrap();
    connected(&mut healed.bus(&directory).subscribe("ses_1")).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_found_made_and_deleted() {
    let provider = provider().await;
    let opencode = opencode(&provider).await;
    let (client, directory) = (client(opencode.base_url()), work(&opencode));
    let unknown = "ses_0000000000000000000000000000";
    let made = client.ensure_session(Some(unknown), &directory, Some("Mine")).await.unwrap();
    assert!(made.created && made.at.id != unknown);
    assert_eq!((made.session.title.as_str(), made.session.directory.as_str()), ("Mine", directory.as_str()));
    let again = client.ensure_session(Some(&made.at.id), &directory, Some("Other")).await.unwrap();
    assert!(!again.created);
    assert_eq!((&again.at, &again.session.title), (&made.at, &made.session.title));

    // By a link it is the same directory, and another one is refused.
    let link = opencode.work().with_file_name("link");
    std::os::unix::fs::symlink(opencode.work(), &link).unwrap();
    let link = Directory::new(&link).unwrap();
    assert!(!client.ensure_session(Some(&made.at.id), &link, None).await.unwrap().created);
    let other = Directory::new(std::env::temp_dir()).unwrap();
    let error = client.ensure_session(Some(&made.at.id), &other, None).await.unwrap_err();
    assert!(matches!(error, ClientError::OtherDirectory { .. }), "{error}");

    assert_eq!(client.session(&made.at).await.unwrap().id, made.at.id);
    assert_eq!(client.children(&made.at).await.unwrap(), []);
    assert_eq!(client.list_messages(&made.at).await.unwrap(), []);
    assert_eq!(client.status(&directory).await.unwrap().len(), 0);
    assert_eq!(client.permissions(&directory).await.unwrap(), []);
    assert_eq!(client.questions(&directory).await.unwrap(), []);
    client.abort(&made.at).await.unwrap();
    client.delete_session(&made.at).await.unwrap();
    client.delete_session(&made.at).await.unwrap();
    assert!(client.session(&made.at).await.unwrap_err().is_not_found());
    assert!(client.get_message(&made.at, "msg_1").await.unwrap_err().is_not_found());
    let late = client.reply_permission(&directory, "per_000000000000", PermissionReply::Once, None).await;
    assert!(late.unwrap_err().is_not_found());
    let late = client.reply_question(&directory, "que_000000000000", &[]).await;
    assert!(late.unwrap_err().is_not_found());
    assert!(client.reject_question(&directory, "que_000000000000").await.unwrap_err().is_not_found());
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_with_odd_names_arrive_as_they_are() {
    let provider = provider().await;
    let opencode = opencode(&provider).await;
    let client = client(opencode.base_url());
    for name in ["with space", "a%41b", "100%", "plus+plus", "ü&=?#"] {
        let path = opencode.work().join(name);
        std::fs::create_dir(&path).unwrap();
        let directory = Directory::new(&path).unwrap();
        let made = client.ensure_session(None, &directory, None).await.unwrap();
        assert_eq!(made.session.directory, directory.as_str());
        assert!(!client.ensure_session(Some(&made.at.id), &directory, None).await.unwrap().created);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_with_the_same_ids_runs_once() {
    let provider = provider().await;
    let opencode = opencode(&provider).await;
    let (client, directory) = (client(opencode.base_url()), work(&opencode));
    let session = client.ensure_session(None, &directory, Some("Mine")).await.unwrap().at;
    let mut subscription = client.bus(&directory).subscribe(&session.id);
    connected(&mut subscription).await;
    let prompt = prompt(&session, "prm_1", "Say hello");
    client.prompt_async(&session, &prompt).await.unwrap();
    client.prompt_async(&session, &prompt).await.unwrap();
    let (_, text) = until_idle(&mut subscription, &session.id).await;
    assert_eq!(text, ANSWER);
    client.prompt_async(&session, &prompt).await.unwrap();
    until_idle(&mut subscription, &session.id).await;

    let messages = client.list_messages(&session).await.unwrap();
    let [user, assistant] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!(user.info["id"], Value::from(prompt.message_id.clone()));
    assert_eq!(user.parts.iter().map(|part| &part["id"]).collect::<Vec<_>>(), [&prompt.parts[0].id]);
    assert_eq!(assistant.info["parentID"], user.info["id"]);
    let one = client.get_message(&session, &prompt.message_id).await.unwrap();
    assert_eq!(&one, user);
    let calls = provider.calls().into_iter().filter(|call| call.asked.model == Opencode::MODEL).count();
    assert_eq!(calls, 1);
    let nobody = SessionRef::new("ses_1", directory.clone()).unwrap();
    assert!(client.prompt_async(&nobody, &prompt).await.unwrap_err().is_not_found());
}
