//! A gateway that is killed while its agent says secrets leaves none of them in its directory.

use super::{grow, item, secrets};
use crate::puppet::{Puppet, began, done, open_with};
use crate::support::*;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use turnstream_agents::Command;
use turnstream_gateway::{NewPrompt, Settings};
use turnstream_log::Follow;
use turnstream_model::cursor::Cursor;
use turnstream_model::event::ItemKind;
use turnstream_testkit::crash::{KillPoint, Program, role};
use turnstream_testkit::leaks::{leaks_below, leaks_of};

const HOME: &str = "TURNSTREAM_SECRETS_TEST_HOME";
const SEED: u64 = 7;

/// The child: an agent that says one secret after the other, in pieces of every length, until it is killed.
#[test]
fn telling_child() {
    if role().as_deref() != Some("tell") {
        return;
    }
    let home = PathBuf::from(std::env::var(HOME).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let puppet = Puppet::new(|_, mut commands, observer| async move {
            while let Some(command) = commands.recv().await {
                let Command::Prompt { native_id, .. } = command else { continue };
                began(&observer, &native_id, &[&native_id]).await;
                for (index, secret) in secrets(SEED).iter().enumerate() {
                    let key = format!("{native_id}.{index}");
                    let kind = if index % 2 == 0 { ItemKind::Message } else { ItemKind::Reasoning };
                    item(&observer, &key, kind).await;
                    let characters: Vec<char> = format!("It is {secret}.").chars().collect();
                    for piece in characters.chunks(1 + index % 5) {
                        grow(&observer, &key, &piece.iter().collect::<String>()).await;
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
                let _ = observer.signal(done(&native_id)).await;
            }
        });
        let gateway = open_with(&home, Settings::default(), puppet).await;
        let id = id_of(&gateway.create(new_session_in(&home.join("work"), "puppet")).await.unwrap());
        let text = format!("Here: {}", secrets(SEED)[0]);
        let prompt = NewPrompt::new(vec![json!({"type": "text", "text": text})]);
        for _ in 0..4 {
            gateway.prompt(&id, prompt.clone()).await.unwrap();
        }
        let mut follower = gateway.follow(&id, &Cursor::default()).unwrap();
        while let Ok(step) = follower.next().await {
            if let Follow::Events(events) = step {
                for event in events {
                    println!("FRAME {} {}", event.seq(), String::from_utf8_lossy(event.json()));
                }
            }
        }
    });
}

#[test]
fn after_a_kill_the_whole_directory_holds_no_piece_of_a_secret() {
    let home = laid_out();
    for frames in [3, 11, 40, 90, 160] {
        let program = Program::this_test("secrets::crash::telling_child", "tell").unwrap();
        let seen = program.env(HOME, home.path()).run(&KillPoint::line("FRAME ", frames)).unwrap();
        let delivered = seen.lines("FRAME ").join("\n");
        assert_eq!(leaks_of(delivered.as_bytes(), &secrets(SEED)), Vec::<String>::new());
        let leaks = leaks_below(&home.path().join("data"), &secrets(SEED));
        assert_eq!(leaks, Vec::<String>::new(), "after {frames} frames");
    }
}
