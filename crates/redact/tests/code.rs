//! Code, configuration and data that look like secrets and are none; and JSON values.

use serde_json::json;
use std::borrow::Cow;
use turnstream_redact::{Builder, Pattern, RuleError, Rules, Stream, kinds};

fn untouched(text: &str) {
    assert_eq!(Rules::standard().redact(text), text);
    assert!(matches!(Rules::standard().redact(text), Cow::Borrowed(_)));
}

#[test]
fn names_types_calls_and_placeholders_are_no_values() {
    for text in [
        "token: String,",
        "pub token: Option<String>,",
        "fn check(password: &str, secret: &[u8]) -> bool",
        "let token = next_token(&mut lexer);",
        "let secret = self.secrets.get(name)?;",
        "password = getpass.getpass()",
        "password = os.environ[\"DB_PASSWORD\"]",
        "apiKey: process.env.OPENAI_API_KEY,",
        "const apiKey = import.meta.env.VITE_API_KEY2;",
        "api_key=${API_KEY}",
        "API_KEY=$API_KEY_2",
        "password: <your-password>",
        "password: \"********\"",
        "password = \"changeme\"",
        "token = \"xxxxxxxxxxxxxxxxxxxx\"",
        "\"api_key\": \"YOUR_API_KEY_HERE\"",
        "OPENAI_API_KEY=sk-...",
        "export ANTHROPIC_API_KEY=sk-ant-xxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-your-key-goes-here-please",
        "pip install sk-learn-contrib-extras-more",
        "class=\"sk-folding-cube-loading-indicator\"",
        "risk-assessment-of-the-whole-department1",
        "\"token_type\": \"bearer\", \"expires_in\": 3600",
        "\"max_tokens\": 128000",
        "password: 'Enter your password'",
        "<input type=\"password\" name=\"password2\">",
        "Authorization: Bearer <token>",
        "Authorization: Bearer ${token}",
        "headers: { authorization: `Bearer ${apiKey}` }",
        "the bearer token expired, so basic authentication was tried",
        "http://localhost:8080/path?x=1 and https://example.com:443",
        "postgres://user:password@localhost/db",
        "postgres://$USER:$PASSWORD@localhost/db",
        "git@github.com:owner/repo.git and ssh://git@host:22/x",
        "if token == TokenKind::OpenParen { return }",
        "use secret::Key; type Token = u64;",
        "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ\n-----END CERTIFICATE-----",
        "starts with \"-----BEGIN PRIVATE KEY-----\" and ends with \"-----END PRIVATE KEY-----\"",
        "secret_name = my-secret-name-for-the-database",
        "password_hash: $2b$12$KIXxPz",
        "kubectl get secret my-app-tls",
        "let token = token || other; token ??= nextToken(); secret ||= {}; password = \"\" + x",
        "\"\"\"The password: \"\"\" + password = \"\"\"\nSeveral lines of text1\"\"\"",
        r#""http:\/\/localhost:8080\/x" and "postgres:\/\/user:password@localhost\/db""#,
        "let tokens: Vec<Token> = Vec::<Token>::with_capacity(4096);",
        "<label for=\"password\">Password1</label> <Password>{value}</Password>",
        "<password></password><password>****</password>",
        "mkdir -p /srv/app2/data && docker run -p 8080:80 -u 1000:1000 app",
        "git push -u origin main2 | grep -pattern7",
        "curl -u $USER:$PASSWORD https://x and curl -u user:password https://x",
        "curl --user <user>:<password> --proxy-user2 x",
        "mysql -u root -p main && mysql -proot < x.sql && mysql -p$PASS1",
        "sshpass -p \"$PASSWORD1\" ssh host",
        "pass --password or --password-file, --token-url https://x1.y2/z3, --token -x9",
        "\"auth\": \"required\", \"auth\": null, auth=basic, oauth = \"enabled\"",
        "the author wrote: authoring is hard",
        "machine learning, login bob, password: ask him",
        "machine x login bob password <password>",
        "a line PuTTY-User-Key-File-2: means version 2 of the format",
    ] {
        untouched(text);
    }
}

#[test]
fn hashes_ids_and_data_stay_what_they_are() {
    let rng = &mut fastrand::Rng::with_seed(3);
    let mut of = |alphabet: &str, length: usize| -> String {
        let alphabet = alphabet.as_bytes();
        (0..length).map(|_| char::from(alphabet[rng.usize(..alphabet.len())])).collect()
    };
    let hex = "0123456789abcdef";
    let alnum = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    untouched(&format!("commit {}", of(hex, 40)));
    untouched(&format!("sha256:{}", of(hex, 64)));
    untouched(&format!("checksum = \"{}\"", of(hex, 64)));
    untouched(&format!("id 550e8400-e29b-41d4-a716-{}", of(hex, 12)));
    untouched(&format!("\"integrity\": \"sha512-{}==\"", of(base64, 86)));
    untouched(&format!("data:image/png;base64,{}", of(base64, 200_000)));
    // What would begin a key of Google or Amazon stands in an image by chance.
    untouched(&format!(
        "data:image/png;base64,iVBORw0{}AIza{}/ABSK{}",
        of(base64, 60),
        of(alnum, 40),
        of(base64, 5_000)
    ));
    untouched(&format!("data:application/json;base64,eyJ{}", of(base64, 5_000)));
    untouched(&format!("!function(e,t){{var n={{}};{}}}", "function r(e){return e+1}".repeat(200)));
}

#[test]
fn json_is_redacted_by_text_and_by_name_and_images_are_left_alone() {
    let rules = Rules::standard();
    let rng = &mut fastrand::Rng::with_seed(4);
    let image: String = (0..100_000).map(|_| rng.alphanumeric()).collect();
    let token = format!("ghp_{}", "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5");
    let mut value = json!({
        "text": format!("use {token} now"),
        "password": "hunter2!x",
        "nested": [{ "apiKey": "x7Kq9Zt2Lm4Wp8Rs6Vb1" }, { "token": "none" }, null, 1, true],
        "source": { "type": "base64", "media_type": "image/png", "data": image },
        "headers": { "Authorization": "Bearer short-4x9q7" },
        token.clone(): "by key",
        format!("{token}2"): "by another",
    });
    assert!(rules.redact_json(&mut value));
    assert_eq!(
        value,
        json!({
            "text": "use [redacted:github] now",
            "password": "[redacted:password]",
            "nested": [{ "apiKey": "[redacted:secret]" }, { "token": "none" }, null, 1, true],
            "source": { "type": "base64", "media_type": "image/png", "data": image },
            "headers": { "Authorization": "Bearer [redacted:authorization]" },
            "[redacted:github]": "by key",
            "[redacted:github]+": "by another",
        })
    );
    assert!(!rules.redact_json(&mut value));
    let mut token = json!(token);
    assert!(rules.redact_json(&mut token));
    assert!(!Rules::none().redact_json(&mut json!({ "password": "hunter2!x" })));
}

#[test]
fn literals_are_found_in_every_form_they_are_written_in() {
    let rules = Rules::builder().literal("db", "p\"ss w/rd\n&x").unwrap().build();
    let text =
        "raw p\"ss w/rd\n&x json p\\\"ss w/rd\\n&x url p%22ss%20w%2Frd%0A%26x form p%22ss+w%2Frd%0A%26x.";
    assert_eq!(
        rules.redact(text),
        "raw [redacted:db] json [redacted:db] url [redacted:db] form [redacted:db]."
    );
}

#[test]
fn a_literal_is_caught_to_its_end_also_within_and_across_other_secrets() {
    let rules = Rules::builder()
        .literal("short", "blue-whale")
        .and_then(|rules| rules.literal("long", "blue-whale song at night"));
    let rules = rules.unwrap().build();
    assert_eq!(rules.redact("a blue-whale song at night."), "a [redacted:long].");
    assert_eq!(rules.redact("a blue-whale song at noon."), "a [redacted:short] song at noon.");
    let text = "API_KEY=x7Kq9Zt2Lm4Wp8blue-whale song at night, then";
    assert_eq!(rules.redact(text), "API_KEY=[redacted:secret], then");
    for cut in 0..text.len() {
        let (mut stream, mut out) = (Stream::new(&rules), String::new());
        stream.push(&text[..cut], &mut out);
        stream.push(&text[cut..], &mut out);
        stream.finish(&mut out);
        assert_eq!(out, "API_KEY=[redacted:secret], then", "cut at {cut}");
    }
}

#[test]
fn a_literal_never_goes_out_in_pieces_of_twelve_bytes() {
    let secret = "correct horse battery staple";
    let rules = Rules::builder().literal("phrase", secret).unwrap().build();
    let text = format!("it is {secret}, or so");
    for settle_every in 1..30 {
        let (mut stream, mut out) = (Stream::new(&rules), String::new());
        for at in 0..text.len() {
            stream.push(&text[at..=at], &mut out);
            stream.release(&mut out);
            if at % settle_every == 0 {
                stream.settle(&mut out);
            }
        }
        stream.finish(&mut out);
        let leaked = secret
            .as_bytes()
            .windows(12)
            .find(|piece| out.as_bytes().windows(12).any(|there| there == *piece));
        assert_eq!(leaked, None, "{out}");
        assert!(out.ends_with(", or so"), "{out}");
    }
}

#[test]
fn rules_that_cannot_work_are_refused_with_the_reason() {
    let said = |result: Result<Builder, RuleError>| result.map(|_| ()).unwrap_err().to_string();
    let pattern = |regex: &str, prefix: Option<&str>| {
        said(Rules::builder().pattern(Pattern {
            name: "p".into(),
            regex: regex.into(),
            prefix: prefix.map(Into::into),
        }))
    };
    assert!(said(Rules::builder().literal("db", "")).contains("0 bytes long; at least 8"));
    assert!(said(Rules::builder().literal("db", "1234567")).contains("7 bytes long; at least 8"));
    assert!(said(Rules::builder().literal("My Name", "12345678")).contains("small letters"));
    assert!(pattern("x*", None).contains("matches the empty text"));
    assert!(pattern("a(b", None).contains("unclosed group"));
    assert!(pattern("abc[0-9]+", Some("ab")).contains("shorter than 3"));
    assert!(pattern("abc[0-9]+", Some("xyz")).contains("begins with its prefix"));
    assert!(pattern(r"\bx\b", None).contains("word boundary"), "{}", pattern(r"\bx\b", None));
    assert!(said(Rules::builder().without("nonsense")).contains("there are: "));
}

#[test]
fn a_kind_that_is_switched_off_stays() {
    let token = format!("ghp_{}", "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5");
    for kind in kinds() {
        let rules = Rules::builder().without(kind).unwrap().build();
        let expected = if kind == "github" { &token[..] } else { "[redacted:github]" };
        assert_eq!(rules.redact(&token), expected);
    }
    assert_eq!(Rules::none().redact(&token), token);
}

#[test]
fn bytes_that_are_no_text_are_kept_around_a_secret() {
    let token = format!("ghp_{}", "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5");
    let bytes = [b"\xff\xfe\x00".as_slice(), token.as_bytes(), b"\xc3"].concat();
    assert_eq!(&Rules::standard().redact_bytes(&bytes)[..], b"\xff\xfe\x00[redacted:github]\xc3");
}

#[test]
fn a_key_block_in_a_numbered_file_is_redacted_in_every_cut() {
    let line = "MIIEpAIBAAKCAQEAx7Kq9Zt2Lm4Wp8Rs6Vb1Yd3Nf5Gh7Jk9Mn1Pq3Rs5Tv7Wx9Y";
    let text = format!(
        "     1→-----BEGIN RSA PRIVATE KEY-----\n     2→{line}\n     3→{line}\n     4→-----END RSA PRIVATE KEY-----\n     5→x"
    );
    for (cut, _) in text.char_indices() {
        let (mut stream, mut out) = (Stream::new(&Rules::standard()), String::new());
        stream.push(&text[..cut], &mut out);
        stream.push(&text[cut..], &mut out);
        stream.finish(&mut out);
        assert_eq!(out, "     1→[redacted:private_key]\n     5→x", "cut at {cut}");
    }
}

#[test]
fn a_key_block_in_base64_is_redacted_and_a_certificate_is_not() {
    let rng = &mut fastrand::Rng::with_seed(5);
    let mut rest = || -> String { (0..400).map(|_| rng.alphanumeric()).collect() };
    let certificate =
        format!("    client-certificate-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk{}\n", rest());
    let key = format!("    client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQp{}\n", rest());
    let text = format!("{certificate}{key}");
    let redacted = format!("{certificate}    client-key-data: [redacted:private_key]\n");
    assert_eq!(Rules::standard().redact(&text), redacted);
}
