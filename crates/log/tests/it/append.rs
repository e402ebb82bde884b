//! Appending: order, durability, owners.

use crate::support::*;
use turnstream_log::{AppendError, Appender, ClaimError, Log, Merge, Options};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Body, Draft, Tool};
use turnstream_model::id::ItemId;
use turnstream_model::time::Time;
use turnstream_testkit::lawful::{Tail, assert_lawful};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_many_sessions_are_contiguous_and_read_back_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut tasks = Vec::new();
    for session in 0..20 {
        let log = log.clone();
        tasks.push(tokio::spawn(async move {
            let mut appender = talking(&log, &format!("s{session}")).await;
            let mut receipts = Vec::new();
            for number in 0..200 {
                let text = format!("{session}:{number} ");
                receipts.push(appender.append(vec![delta("t1", "i1", &text)], NOW).await.unwrap());
            }
            for (number, receipt) in receipts.into_iter().enumerate() {
                assert_eq!(receipt.await.unwrap(), Seq(number as u64 + 4));
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let before: Vec<_> =
        (0..20).map(|n| log.read(&id(&format!("s{n}")), Seq(0), usize::MAX).unwrap()).collect();
    log.close().await;
    let log = open(directory.path()).log;
    assert_eq!(log.sessions().unwrap().len(), 20);
    for (session, before) in before.iter().enumerate() {
        let after = log.read(&id(&format!("s{session}")), Seq(0), usize::MAX).unwrap();
        assert_eq!(&after, before);
        assert_eq!(seqs(&after), (1..=203).collect::<Vec<u64>>());
        assert_lawful(lines(&after).iter().map(String::as_str), Tail::Live);
    }
}

#[tokio::test]
async fn an_old_owner_cannot_append() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut old = talking(&log, "s").await;
    assert!(matches!(log.claim(&id("s")).await, Err(ClaimError::Held(_))));
    let mut new = log.take_over(&id("s")).await.unwrap();
    let refused = old.append(vec![delta("t1", "i1", "old")], NOW).await.unwrap().await;
    assert_eq!(refused, Err(AppendError::Fenced { session: "s".into(), ours: 1, current: 2 }));
    assert_eq!(append(&mut new, vec![delta("t1", "i1", "new")]).await, 4);
    drop(old);
    assert!(
        matches!(log.claim(&id("s")).await, Err(ClaimError::Held(_))),
        "the end of an old owner frees nothing"
    );
    drop(new);
    assert_eq!(log.claim(&id("s")).await.unwrap().epoch(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_an_old_owner_follows_a_take_over() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    for round in 0..40 {
        let name = format!("s{round}");
        let mut old = talking(&log, &name).await;
        let flood = tokio::spawn(async move {
            // Until an append is refused; nobody waits for the receipts in between.
            loop {
                let receipt = old.append(vec![delta("t1", "i1", "old")], NOW).await.unwrap();
                tokio::task::yield_now().await;
                if tokio::time::timeout(std::time::Duration::from_micros(50), receipt)
                    .await
                    .is_ok_and(|it| it.is_err())
                {
                    return;
                }
            }
        });
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        let mut new = log.take_over(&id(&name)).await.unwrap();
        let head = new.head();
        append(&mut new, vec![delta("t1", "i1", "new")]).await;
        flood.await.unwrap();
        append(&mut new, vec![delta("t1", "i1", "new")]).await;
        let after = log.read(&id(&name), head, usize::MAX).unwrap();
        assert!(
            lines(&after).iter().all(|line| line.contains("\"new\"")),
            "round {round}: {:?}",
            lines(&after)
        );
    }
}

#[tokio::test]
async fn owners_count_on_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    assert_eq!(talking(&log, "s").await.epoch(), 1);
    log.close().await;
    let log = open(directory.path()).log;
    let mut appender = log.claim(&id("s")).await.unwrap();
    assert_eq!((appender.epoch(), appender.head()), (2, Seq(3)));
    assert_eq!(append(&mut appender, vec![delta("t1", "i1", "more")]).await, 4);
}

#[tokio::test]
async fn a_session_is_made_once_and_an_unknown_one_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    drop(log.create(&id("s")).await.unwrap());
    assert!(matches!(log.create(&id("s")).await, Err(ClaimError::Exists(name)) if name == "s"));
    assert!(matches!(log.claim(&id("x")).await, Err(ClaimError::Unknown(name)) if name == "x"));
    assert_eq!(log.read(&id("x"), Seq(0), 1).unwrap_err().to_string(), "there is no session x");
}

#[tokio::test]
async fn only_adjacent_deltas_of_one_item_are_merged() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { merge: Merge::AdjacentDeltas, ..options() };
    let log = Log::open(directory.path(), &options).unwrap().log;
    let mut appender = talking(&log, "s").await;
    let drafts = vec![
        delta("t1", "i1", "a"),
        delta("t1", "i1", "b"),
        item_started("t1", "i2"),
        delta("t1", "i1", "c"),
        delta("t1", "i2", "d"),
        delta("t1", "i2", "e"),
    ];
    assert_eq!(append(&mut appender, drafts).await, 7);
    let events = log.read(&id("s"), Seq(3), 10).unwrap();
    let texts: Vec<_> =
        lines(&events).iter().map(|line| line.split("\"text\":").nth(1).unwrap().to_owned()).collect();
    assert_eq!(texts, ["\"ab\"}", "\"\"}", "\"c\"}", "\"de\"}"]);
}

#[tokio::test]
async fn an_append_larger_than_a_segment_or_the_budget_goes_through() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { budget: 16 * 1024, ..options() };
    let log = Log::open(directory.path(), &options).unwrap().log;
    let mut appender = talking(&log, "s").await;
    let huge = "x".repeat(300_000);
    for _ in 0..3 {
        append(&mut appender, vec![delta("t1", "i1", &huge), delta("t1", "i1", "small")]).await;
    }
    drop(appender);
    log.close().await;
    let log = open(directory.path()).log;
    assert_eq!(log.read(&id("s"), Seq(0), usize::MAX).unwrap().len(), 9);
}

#[tokio::test]
async fn an_append_that_no_commit_can_hold_is_refused_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = talking(&log, "s").await;
    let half = Appender::MOST_BYTES / 2;
    let result = vec![serde_json::Value::String("x".repeat(half))];
    let tool = Tool { content: Some(result), ..Tool::default() };
    let update = || Draft {
        item: Some(ItemId::from("i1")),
        ..Draft::new(Body::ItemUpdated { tool: Some(Box::new(tool.clone())) })
    };
    let refused = appender.append(vec![update(), update()], NOW).await.map(drop).unwrap_err();
    assert!(matches!(&refused, AppendError::TooLarge { session, .. } if session == "s"), "{refused}");
    assert!(refused.to_string().contains("append it in parts"), "{refused}");
    assert_eq!(append(&mut appender, vec![update()]).await, 4, "half of it is not too much");
    assert_eq!(append(&mut appender, vec![delta("t1", "i1", "small")]).await, 5);
}

#[tokio::test]
async fn a_closed_log_refuses_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = talking(&log, "s").await;
    log.clone().close().await;
    assert!(matches!(appender.append(vec![delta("t1", "i1", "x")], NOW).await, Err(AppendError::Closed)));
    assert!(matches!(log.create(&id("t")).await, Err(ClaimError::Closed)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_who_claim_a_free_session_one_gets_it() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    drop(talking(&log, "s").await);
    for round in 0..20 {
        let claims: Vec<_> = (0..4)
            .map(|_| {
                let log = log.clone();
                tokio::spawn(async move { log.claim(&id("s")).await })
            })
            .collect();
        let mut owners = Vec::new();
        for claim in claims {
            owners.extend(claim.await.unwrap().ok());
        }
        assert_eq!(owners.len(), 1, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_found_while_it_is_made_is_the_one_that_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    for round in 0..60 {
        let name = format!("s{round}");
        let early = tokio::spawn({
            let (log, name) = (log.clone(), name.clone());
            async move {
                loop {
                    if let Ok(follower) = log.follow(&id(&name), &turnstream_model::cursor::Cursor::default())
                    {
                        return follower;
                    }
                    tokio::task::yield_now().await;
                }
            }
        });
        let mut appender = log.create(&id(&name)).await.unwrap();
        append(&mut appender, vec![created(&name)]).await;
        let mut follower = early.await.unwrap();
        let seen = tokio::time::timeout(std::time::Duration::from_secs(300), events(&mut follower, 1)).await;
        assert_eq!(seen.expect("it sees what is appended").len(), 1, "round {round}");
    }
}

#[tokio::test]
async fn a_take_over_that_nobody_waits_for_leaves_the_session_free() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let old = talking(&log, "s").await;
    let abandoned = tokio::time::timeout(std::time::Duration::ZERO, log.take_over(&id("s"))).await;
    drop(abandoned);
    drop(old);
    for _ in 0..30_000 {
        match log.claim(&id("s")).await {
            Ok(_) => return,
            Err(ClaimError::Held(_)) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the session is held by nobody");
}

#[tokio::test]
async fn times_never_run_backwards_in_a_session() {
    let directory = tempfile::tempdir().unwrap();
    let times = |log: &Log| -> Vec<u64> {
        let events = log.read(&id("s"), Seq(0), usize::MAX).unwrap();
        events.iter().map(|event| event.event().unwrap().time.0).collect()
    };
    let notice = || vec![Draft::new(Body::SessionEnded { reason: "r".into() })];
    let log = open(directory.path()).log;
    let mut appender = log.create(&id("s")).await.unwrap();
    for time in [5_000, 7_000, 6_000, 0] {
        appender.append(notice(), Time(time)).await.unwrap().await.unwrap();
    }
    assert_eq!(times(&log), [5_000, 7_000, 7_000, 7_000]);
    drop(appender);
    log.close().await;
    let log = open(directory.path()).log;
    let mut appender = log.claim(&id("s")).await.unwrap();
    for time in [6_000, 8_000] {
        appender.append(notice(), Time(time)).await.unwrap().await.unwrap();
    }
    assert_eq!(times(&log)[4..], [7_000, 8_000], "also after a restart");
}
