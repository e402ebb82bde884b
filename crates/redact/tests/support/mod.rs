//! Samples of every builtin kind, made by a seeded generator so that no secret stands in the sources.

#![allow(dead_code, reason = "every test takes its part")]

use turnstream_redact::{Rules, Stream};

/// A text with a secret in it.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) kind: &'static str,
    pub(crate) before: String,
    pub(crate) secret: String,
    pub(crate) after: String,
}

impl Sample {
    pub(crate) fn text(&self) -> String {
        format!("{}{}{}", self.before, self.secret, self.after)
    }

    pub(crate) fn redacted(&self) -> String {
        format!("{}[redacted:{}]{}", self.before, self.kind, self.after)
    }
}

pub(crate) const DIGITS: &str = "0123456789";
pub(crate) const HEX: &str = "0123456789abcdef";
pub(crate) const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
pub(crate) const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
pub(crate) const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
pub(crate) const URLSAFE: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
pub(crate) const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn random(rng: &mut fastrand::Rng, alphabet: &str, length: usize) -> String {
    let alphabet = alphabet.as_bytes();
    (0..length).map(|_| char::from(alphabet[rng.usize(..alphabet.len())])).collect()
}

/// Prefix, alphabet and length of the body, as the issuers make them.
const TOKENS: &[(&str, &str, &str, usize)] = &[
    ("anthropic", "sk-ant-api03-", URLSAFE, 95),
    ("openrouter", "sk-or-v1-", HEX, 64),
    ("openai", "sk-proj-", URLSAFE, 156),
    ("openai", "sk-svcacct-", URLSAFE, 156),
    ("openai", "sk-admin-", URLSAFE, 124),
    ("openai", "sk-", ALNUM, 48),
    ("openai", "sk-", HEX, 32),
    ("google", "AIza", URLSAFE, 35),
    ("google", "ya29.", URLSAFE, 120),
    ("google", "GOCSPX-", URLSAFE, 28),
    ("groq", "gsk_", ALNUM, 52),
    ("xai", "xai-", ALNUM, 80),
    ("huggingface", "hf_", ALNUM, 34),
    ("replicate", "r8_", ALNUM, 37),
    ("perplexity", "pplx-", ALNUM, 48),
    ("fireworks", "fw_", ALNUM, 24),
    ("together", "tgp_v1_", URLSAFE, 43),
    ("cerebras", "csk-", LOWER, 48),
    ("nvidia", "nvapi-", URLSAFE, 64),
    ("voyage", "pa-", URLSAFE, 43),
    ("aws_key_id", "AKIA", UPPER, 16),
    ("aws_key_id", "ASIA", UPPER, 16),
    ("aws_bedrock", "ABSK", BASE64, 128),
    ("digitalocean", "dop_v1_", HEX, 64),
    ("cloudflare", "cfut_", ALNUM, 48),
    ("heroku", "HRKU-AA", URLSAFE, 58),
    ("flyio", "fo1_", URLSAFE, 43),
    ("databricks", "dapi", HEX, 32),
    ("vault", "hvs.", URLSAFE, 95),
    ("pulumi", "pul-", HEX, 40),
    ("supabase", "sbp_", HEX, 40),
    ("grafana", "glsa_", ALNUM, 41),
    ("sentry", "sntryu_", HEX, 64),
    ("planetscale", "pscale_tkn_", URLSAFE, 43),
    ("age", "AGE-SECRET-KEY-1", UPPER, 58),
    ("github", "ghp_", ALNUM, 36),
    ("github", "gho_", ALNUM, 36),
    ("github", "ghu_", ALNUM, 36),
    ("github", "ghs_", ALNUM, 36),
    ("github", "ghr_", ALNUM, 36),
    ("github", "github_pat_", ALNUM, 82),
    ("gitlab", "glpat-", URLSAFE, 20),
    ("gitlab", "glptt-", HEX, 40),
    ("gitlab", "gldt-", URLSAFE, 20),
    ("gitlab", "glrt-", URLSAFE, 20),
    ("gitlab", "glcbt-", ALNUM, 24),
    ("gitlab", "glagent-", URLSAFE, 50),
    ("gitlab", "gloas-", HEX, 64),
    ("npm", "npm_", ALNUM, 36),
    ("pypi", "pypi-AgEIcHlwaS5vcmc", URLSAFE, 150),
    ("crates_io", "cio", ALNUM, 32),
    ("rubygems", "rubygems_", HEX, 48),
    ("docker", "dckr_pat_", URLSAFE, 27),
    ("atlassian", "ATATT3", URLSAFE, 186),
    ("linear", "lin_api_", ALNUM, 40),
    ("notion", "ntn_", ALNUM, 46),
    ("slack", "xoxb-", DIGITS, 50),
    ("slack", "xoxp-", ALNUM, 60),
    ("slack", "xapp-1-", ALNUM, 90),
    ("stripe", "sk_live_", ALNUM, 24),
    ("stripe", "rk_live_", ALNUM, 99),
    ("stripe", "sk_test_", ALNUM, 99),
    ("stripe", "whsec_", ALNUM, 32),
    ("sendgrid", "SG.", URLSAFE, 66),
    ("shopify", "shpat_", HEX, 32),
    ("twilio", "SK", HEX, 32),
    ("mailgun", "key-", HEX, 32),
];

/// A text of a multiple of three bytes in base64.
fn base64(text: &str) -> String {
    let six = |bits: u32, shift: u32| char::from(BASE64.as_bytes()[(bits >> shift & 63) as usize]);
    text.as_bytes()
        .chunks(3)
        .map(|three| three.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)))
        .flat_map(|bits| [six(bits, 18), six(bits, 12), six(bits, 6), six(bits, 0)])
        .collect()
}

/// One sample per form and surrounding.
pub(crate) fn samples(seed: u64) -> Vec<Sample> {
    let rng = &mut fastrand::Rng::with_seed(seed);
    let mut samples = Vec::new();
    let mut add = |kind, before: &str, secret: &str, after: &str| {
        let [before, secret, after] = [before, secret, after].map(str::to_owned);
        samples.push(Sample { kind, before, secret, after });
    };
    for (kind, prefix, alphabet, length) in TOKENS {
        // A generator may end in a sign that no token of this form ends in; letters keep the samples plain.
        let token = format!("{prefix}{}", random(rng, alphabet, *length));
        add(kind, "the key is ", &token, " as of today");
        add(kind, "{\\\"x\\\":\\\"a\\n", &token, "\\\"}");
        add(kind, "KEY\u{1b}[0m=\u{1b}[1;33m", &token, "\u{1b}[0m\n");
    }
    let hook = format!("T{}/B{}/{}", random(rng, UPPER, 8), random(rng, UPPER, 8), random(rng, ALNUM, 24));
    add("slack", "POST https://hooks.slack.com/services/", &hook, " now");
    let hook = format!("{}/{}", random(rng, DIGITS, 18), random(rng, URLSAFE, 68));
    add("discord", "https://discord.com/api/webhooks/", &hook, "\n");
    add("telegram", "bot 1234567890:", &format!("AA{}", random(rng, ALNUM, 33)), " ok");
    add("azure_sas", "https://x.blob.core.windows.net/c?sv=2020&sig=", &random(rng, ALNUM, 46), "&se=1");

    let part = |rng: &mut fastrand::Rng, length| random(rng, URLSAFE, length);
    let jwt = format!("eyJhbGciOiJIUzI1NiJ9.eyJ{}.{}", part(rng, 60), part(rng, 43));
    add("jwt", "cookie ", &jwt, ";");
    add("jwt", "Authorization: Bearer ", &jwt, "\n");
    add("jwt", "{\"access_token\":\"", &jwt, "\"}");

    let secret = random(rng, ALNUM, 32);
    add("authorization", "Authorization: Bearer ", &secret, "\r\n");
    add("authorization", "curl -H 'authorization: Bearer ", &secret, "' https://x");
    add("authorization", "{\"Authorization\": \"Bearer ", &secret, "\"}");
    add("authorization", "{\\\"Authorization\\\":\\\"token ", &secret, "\\\"}");
    add("bearer", "with Bearer ", &secret, " it works");
    let basic = "YWxhZGRpbjpvcGVuc2VzYW1lMTIz";
    add("authorization", "Authorization: Basic ", basic, "\n");
    add("basic", "sends Basic ", basic, " then");
    for (before, after) in [
        ("x-api-key: ", "\n"),
        ("curl -H \"x-api-key: ", "\" https://x"),
        ("api-key: ", "\n"),
        ("API_KEY=", "\n"),
        ("SMTP_PASS=", "\n"),
        ("export CLOUDFLARE_API_TOKEN=", "\n"),
        ("api_key = \"", "\"\n"),
        ("\"apiKey\": \"", "\","),
        ("\\\"client_secret\\\": \\\"", "\\\","),
        ("config['secret_key'] = '", "'"),
        ("aws_secret_access_key = ", "\n"),
        ("DefaultEndpointsProtocol=https;AccountKey=", ";EndpointSuffix=x"),
        ("?access_token=", "&x=1"),
        (".header(\"x-api-key\", \"", "\")"),
        ("process.env.API_KEY ||= \"", "\";"),
        ("apiKey ??= '", "'"),
        ("API_KEY ?= ", "\n"),
        ("API_KEY = \"\"\"", "\"\"\"\n"),
        ("api_key = \\\"\\\"\\\"", "\\\"\\\"\\\"\\n"),
    ] {
        add("secret", before, &secret, after);
    }
    let uuid = format!(
        "{}-4{}-{}-{}",
        random(rng, HEX, 8),
        random(rng, HEX, 3),
        random(rng, HEX, 4),
        random(rng, HEX, 12)
    );
    add("secret", "HEROKU_API_KEY=", &uuid, "\n");
    let password = format!("{}7!{}", random(rng, LOWER, 6), random(rng, ALNUM, 6));
    for (before, after) in [
        ("password = \"", "\"\n"),
        ("DB_PASSWORD=", "\n"),
        ("\"password\":\"", "\"}"),
        ("password: ", "\n"),
        ("Server=x;Password=", ";Database=y"),
        ("PGPASSWORD=", " psql"),
        ("\\\"passwd\\\": \\\"", "\\\""),
    ] {
        add("password", before, &password, after);
    }
    for (before, after) in [
        ("<password>", "</password>"),
        ("<db:admin-password>", "</db:admin-password>\n"),
        ("<user name=\"x\" password=\"", "\"/>"),
        ("psql --password ", " -h db"),
        ("tool --db-password='", "' run"),
        ("tool --admin-password \"", "\" run"),
        ("curl -s -u admin:", " https://x"),
        ("curl --user 'admin:", "' https://x"),
        ("curl https://x -uadmin:", "\n"),
        ("sshpass -p ", " ssh root@host"),
        ("sshpass -p'", "' ssh root@host"),
        ("mysqldump -h db -u root -p", " main > x.sql"),
        ("machine git.example.org login deploy password ", "\n"),
        ("machine x\n  login deploy\n  password ", "\nmachine y"),
    ] {
        add("password", before, &password, after);
    }
    let key = random(rng, ALNUM, 32);
    add("secret", "<apiKey>", &key, "</apiKey>");
    add("secret", "deploy --token ", &key, " --force");
    let login = base64(&format!("deploy:{}", random(rng, ALNUM, 14)));
    add("basic", "{\"auths\": {\"x.io\": {\"auth\": \"", &login, "\"}}}");
    add("basic", "{\\\"auths\\\":{\\\"x.io\\\":{\\\"auth\\\":\\\"", &login, "\\\"}}}");
    add("basic", "//npm.x.io/:_auth=", &login, "\n");
    let password = random(rng, ALNUM, 16);
    add("url_password", "postgres://app:", &password, "@db.internal:5432/main");
    add("url_password", "see mongodb+srv://u:", &password, "@c0.example.net ok");
    add("url_password", "https://u:", &password, "@host");
    add("url_password", "{\"url\":\"redis:\\/\\/u:", &password, "@host\\/0\"}");

    for newline in ["\n", "\r\n", "\\n"] {
        let mut lines = |count: usize| -> String {
            let lines: Vec<String> = (0..count).map(|_| random(rng, BASE64, 64)).collect();
            lines.join(newline)
        };
        let (public, private) = (lines(3), lines(2));
        let mac = random(rng, HEX, if newline == "\n" { 64 } else { 40 });
        let key = [
            "PuTTY-User-Key-File-3: ssh-ed25519",
            "Encryption: none",
            "Comment: me@here",
            "Public-Lines: 3",
            &public,
            "Private-Lines: 2",
            &private,
            &format!("Private-MAC: {mac}"),
        ];
        add("private_key", "key:\n", &key.join(newline), "\nafter");
    }
    for (label, newline) in [
        ("RSA PRIVATE KEY", "\n"),
        ("PRIVATE KEY", "\\n"),
        ("EC PRIVATE KEY", "\r\n"),
        ("OPENSSH PRIVATE KEY", "\n"),
        ("ENCRYPTED PRIVATE KEY", "\\\\n"),
        ("PGP PRIVATE KEY BLOCK", "\n\n"),
        ("RSA PRIVATE KEY", "\n     2\t"),
        ("RSA PRIVATE KEY", "\\n     2\\t"),
        ("PRIVATE KEY", "\n00002| "),
        ("PRIVATE KEY", "\n  12: "),
    ] {
        let lines: Vec<String> = (0..6).map(|_| random(rng, BASE64, 64)).collect();
        let key =
            format!("-----BEGIN {label}-----{newline}{}{newline}-----END {label}-----", lines.join(newline));
        add("private_key", "key:\n", &key, "\nafter");
    }
    samples
}

/// Pushes the pieces and ends the text.
pub(crate) fn streamed<'a>(rules: &Rules, pieces: impl IntoIterator<Item = &'a str>) -> String {
    let (mut stream, mut out) = (Stream::new(rules), String::new());
    for piece in pieces {
        stream.push(piece, &mut out);
    }
    stream.finish(&mut out);
    out
}

/// Does any piece of 12 bytes of the secret stand in the output? In key blocks the lines are the secret.
pub(crate) fn leaks(sample: &Sample, out: &str) -> Option<String> {
    let secret: &[&str] = &if sample.kind == "private_key" {
        sample
            .secret
            .split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '+' && sign != '/')
            .filter(|line| line.len() > 40)
            .collect()
    } else {
        vec![&sample.secret[..]]
    };
    secret.iter().flat_map(|part| part.as_bytes().windows(12)).find_map(|piece| {
        let piece = std::str::from_utf8(piece).ok()?;
        out.contains(piece).then(|| piece.to_owned())
    })
}
