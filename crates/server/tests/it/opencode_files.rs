//! opencode's API: files below the directory of a request, and nothing else.

use super::support::Rig;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

#[tokio::test(flavor = "multi_thread")]
async fn files_are_found_by_name_below_the_roots_and_links_lead_nowhere() {
    let rig = Rig::start().await;
    let (work, outside) = (rig.work(), tempfile::tempdir().unwrap());
    for directory in ["src/deep", ".git", "node_modules/main", "built"] {
        std::fs::create_dir_all(work.join(directory)).unwrap();
    }
    for file in
        ["src/main.rs", "src/deep/domain.rs", ".git/main", "node_modules/main/main.js", "built/main.o"]
    {
        std::fs::write(work.join(file), "x").unwrap();
    }
    std::fs::write(work.join("built/CACHEDIR.TAG"), "").unwrap();
    std::fs::write(outside.path().join("main-secret"), "secret").unwrap();
    symlink(outside.path(), work.join("out")).unwrap();
    symlink(outside.path().join("main-secret"), work.join("main-link")).unwrap();
    let of = |path: &str, query: &str| format!("/opencode{path}?directory={}&{query}", work.display());
    let found = |query: &'static str| {
        let path = of("/find/file", query);
        let rig = &rig;
        async move { rig.get(&path).await.body }
    };
    assert_eq!(found("query=main").await, json!(["src/main.rs", "src/deep/domain.rs"]));
    assert_eq!(found("query=src").await, json!(["src/", "src/deep/", "src/main.rs", "src/deep/domain.rs"]));
    assert_eq!(found("query=src&dirs=false&limit=1").await, json!(["src/main.rs"]));
    assert_eq!(found("query=&type=directory").await, json!(["src/", "src/deep/"]));
    assert_eq!(found("query=secret").await, json!([]));
    // The form that the TUI asks for.
    let path = format!("/opencode/api/fs/find?location[directory]={}&query=main&limit=1", work.display());
    let newer = rig.get(&path).await.body;
    assert_eq!(newer["data"], json!([{"path": "src/main.rs", "type": "file"}]), "{newer}");
    assert_eq!(newer["location"]["directory"], json!(work));
    for bad in ["dirs=true", "query=a&limit=201", "query=a&limit=0", "query=a&type=link", "query=a&dirs=x"] {
        let refused = rig.get(&of("/find/file", bad)).await;
        assert_eq!((refused.status, &refused.body["name"]), (400, &json!("BadRequest")), "{bad}");
    }
    let elsewhere = format!("/opencode/find/file?directory={}&query=main", outside.path().display());
    assert!(rig.get(&elsewhere).await.status >= 400);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_listed_and_read_and_the_branch_is_known() {
    let rig = Rig::start().await;
    let (work, outside) = (rig.work(), tempfile::tempdir().unwrap());
    std::fs::create_dir_all(work.join("src")).unwrap();
    std::fs::create_dir(work.join(".git")).unwrap();
    std::fs::write(work.join(".git/HEAD"), "ref: refs/heads/topic/one\n").unwrap();
    std::fs::write(work.join("src/a.txt"), "Hello\n").unwrap();
    std::fs::write(work.join("src/b.png"), [0x89, 0, 0xff]).unwrap();
    std::fs::write(work.join("src/long"), vec![b'x'; (4 << 20) + 1]).unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    symlink(outside.path().join("secret"), work.join("link")).unwrap();
    symlink(outside.path(), work.join("out")).unwrap();
    let get = |path: &str, below: &str| {
        let path = format!("/opencode{path}?directory={}&path={below}", work.display());
        let rig = &rig;
        async move { rig.get(&path).await }
    };
    let top = get("/file", ".").await.body;
    let entry = |name: &str, ignored: bool| {
        let absolute = work.join(name);
        json!({"name": name, "path": name, "absolute": absolute, "type": "directory", "ignored": ignored})
    };
    assert_eq!(top, json!([entry(".git", true), entry("src", false)]));
    let names: Vec<Value> = get("/file", "src").await.body.as_array().unwrap().clone();
    let names: Vec<&str> = names.iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["src/a.txt", "src/b.png", "src/long"]);
    let text = get("/file/content", "src/a.txt").await.body;
    assert_eq!(text, json!({"type": "text", "content": "Hello"}));
    let binary = get("/file/content", "src/b.png").await.body;
    let want = json!({"type": "binary", "content": "iQD/", "encoding": "base64", "mimeType": "image/png"});
    assert_eq!(binary, want);
    assert_eq!(get("/file/content", "none").await.body, json!({"type": "text", "content": ""}));
    for wrong in ["link", "out/secret", "../work/src/a.txt", "/etc/hostname", "src", "src/long"] {
        let refused = get("/file/content", wrong).await;
        assert_eq!(refused.status, 400, "{wrong}: {refused:?}");
    }
    for wrong in ["out", "..", "src/a.txt"] {
        assert_eq!(get("/file", wrong).await.status, 400, "{wrong}");
    }
    assert_eq!(get("/vcs", "").await.body, json!({"branch": "topic/one"}));
    rig.stop().await;
}
