//! Tokens with a known prefix, then a run of characters: one table, one check.

use crate::class::{ALNUM, BASE64, BASE64_OR_URLSAFE, Class, HEX, UPPER, URLSAFE, URLSAFE_DOT, WORD};
use crate::value;
use crate::view::{Found, Kind, Pending, Stands, Then, Verdict, View, stands, unless_marked};

/// The longest run that is held. At this length the run is a secret, including its rest.
pub(crate) const CAP: usize = 4096;

/// One form of token. Lengths and alphabets are those that the issuers document or that scanners have
/// verified.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) kind: &'static str,
    pub(crate) prefix: &'static str,
    pub(crate) body: &'static Class,
    /// Fewer characters behind the prefix are not a token.
    pub(crate) min: usize,
    /// More are not a token either: only where the form is exact and the prefix could be a word.
    pub(crate) max: usize,
    pub(crate) trust: Trust,
    pub(crate) place: Place,
    /// The secret begins after the prefix, which is the address of a service.
    pub(crate) address: bool,
}

/// How certain a prefix is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Nothing else begins like this.
    Prefix,
    /// Words begin like this too (`sk-learn`): the body must look random.
    Body,
}

/// Where a prefix counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Anywhere,
    /// Only where a word may begin: `task-` ends in a prefix.
    WordStart,
}

const fn sure(kind: &'static str, prefix: &'static str, body: &'static Class, min: usize) -> Token {
    let (trust, place) = (Trust::Prefix, Place::Anywhere);
    Token { kind, prefix, body, min, max: usize::MAX, trust, place, address: false }
}

/// Sure, but only where a word may begin: words end in what it begins with, and every delta that does would
/// wait.
const fn word(kind: &'static str, prefix: &'static str, body: &'static Class, min: usize) -> Token {
    let (trust, place) = (Trust::Prefix, Place::WordStart);
    Token { kind, prefix, body, min, max: usize::MAX, trust, place, address: false }
}

const fn weak(kind: &'static str, prefix: &'static str, body: &'static Class, min: usize) -> Token {
    let (trust, place) = (Trust::Body, Place::WordStart);
    Token { kind, prefix, body, min, max: usize::MAX, trust, place, address: false }
}

const fn exact(kind: &'static str, prefix: &'static str, body: &'static Class, length: usize) -> Token {
    let (trust, place) = (Trust::Body, Place::WordStart);
    Token { kind, prefix, body, min: length, max: length, trust, place, address: false }
}

/// Ids of keys at AWS: 16 letters of base32, which are few enough to look like words now and then.
const fn key_id(kind: &'static str, prefix: &'static str) -> Token {
    let (trust, place) = (Trust::Prefix, Place::WordStart);
    Token { kind, prefix, body: &UPPER, min: 16, max: 16, trust, place, address: false }
}

const fn webhook(kind: &'static str, prefix: &'static str, body: &'static Class, min: usize) -> Token {
    let (trust, place) = (Trust::Prefix, Place::Anywhere);
    Token { kind, prefix, body, min, max: usize::MAX, trust, place, address: true }
}

/// A key block in base64: the beginning of its BEGIN line, which is the same in all of them.
const fn key_block(prefix: &'static str) -> Token {
    word("private_key", prefix, &BASE64, 40)
}

/// The first entry wins if two prefixes begin alike.
pub(crate) static TOKENS: &[Token] = &[
    // Model providers.
    word("anthropic", "sk-ant-", &URLSAFE, 16),
    word("openrouter", "sk-or-", &URLSAFE, 16),
    word("openai", "sk-proj-", &URLSAFE, 16),
    word("openai", "sk-svcacct-", &URLSAFE, 16),
    word("openai", "sk-admin-", &URLSAFE, 16),
    // Also DeepSeek, Moonshot and others that took over the form.
    weak("openai", "sk-", &URLSAFE, 20),
    // Not within words: it stands in one of fifty images of a megabyte in base64.
    word("google", "AIza", &URLSAFE, 35),
    weak("google", "ya29.", &URLSAFE_DOT, 20),
    word("google", "GOCSPX-", &URLSAFE, 20),
    weak("groq", "gsk_", &ALNUM, 20),
    weak("xai", "xai-", &ALNUM, 20),
    weak("huggingface", "hf_", &ALNUM, 30),
    weak("huggingface", "api_org_", &ALNUM, 30),
    weak("replicate", "r8_", &ALNUM, 30),
    weak("perplexity", "pplx-", &ALNUM, 32),
    weak("fireworks", "fw_", &ALNUM, 20),
    weak("together", "tgp_v1_", &URLSAFE, 30),
    weak("cerebras", "csk-", &ALNUM, 30),
    weak("nvidia", "nvapi-", &URLSAFE, 40),
    weak("voyage", "pa-", &URLSAFE, 40),
    weak("langsmith", "lsv2_", &WORD, 30),
    weak("tavily", "tvly-", &URLSAFE, 20),
    weak("elevenlabs", "sk_", &HEX, 40),
    // Clouds and hosts.
    key_id("aws_key_id", "AKIA"),
    key_id("aws_key_id", "ASIA"),
    key_id("aws_key_id", "ABIA"),
    key_id("aws_key_id", "ACCA"),
    // Of base64 that goes on much longer it is a part.
    Token { max: 300, ..weak("aws_bedrock", "ABSK", &BASE64, 100) },
    word("aws_bedrock", "bedrock-api-key-", &BASE64, 30),
    // Key blocks in base64, as Kubernetes keeps them.
    key_block("LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt"),
    key_block("LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0t"),
    key_block("LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0t"),
    key_block("LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUgS0VZLS0t"),
    key_block("LS0tLS1CRUdJTiBFTkNSWVBURUQgUFJJVkFURSBLRVkt"),
    word("digitalocean", "dop_v1_", &HEX, 32),
    word("digitalocean", "doo_v1_", &HEX, 32),
    word("digitalocean", "dor_v1_", &HEX, 32),
    weak("cloudflare", "cfut_", &WORD, 40),
    weak("cloudflare", "cfat_", &WORD, 40),
    weak("cloudflare", "cfk_", &WORD, 40),
    word("heroku", "HRKU-", &URLSAFE, 36),
    weak("flyio", "fo1_", &URLSAFE, 40),
    weak("flyio", "fm2_", &BASE64, 60),
    weak("databricks", "dapi", &HEX, 32),
    word("vault", "hvs.", &URLSAFE, 24),
    word("vault", "hvb.", &URLSAFE, 60),
    weak("pulumi", "pul-", &HEX, 40),
    weak("supabase", "sbp_", &HEX, 40),
    weak("supabase", "sb_secret_", &URLSAFE, 20),
    weak("vercel", "vcp_", &ALNUM, 24),
    word("grafana", "glsa_", &WORD, 32),
    weak("grafana", "glc_", &BASE64, 32),
    word("sentry", "sntryu_", &HEX, 40),
    weak("sentry", "sntrys_", &BASE64, 40),
    word("planetscale", "pscale_tkn_", &URLSAFE_DOT, 30),
    word("planetscale", "pscale_pw_", &URLSAFE_DOT, 30),
    sure("age", "AGE-SECRET-", &URLSAFE, 50),
    weak("tailscale", "tskey-", &URLSAFE, 20),
    weak("doppler", "dp.pt.", &ALNUM, 40),
    // Forges and registries.
    sure("github", "ghp_", &ALNUM, 30),
    sure("github", "gho_", &ALNUM, 30),
    sure("github", "ghu_", &ALNUM, 30),
    sure("github", "ghs_", &ALNUM, 30),
    sure("github", "ghr_", &ALNUM, 30),
    sure("github", "github_pat_", &WORD, 40),
    sure("gitlab", "glpat-", &URLSAFE_DOT, 20),
    word("gitlab", "glptt-", &HEX, 40),
    word("gitlab", "gldt-", &URLSAFE, 20),
    word("gitlab", "glrt-", &URLSAFE_DOT, 20),
    word("gitlab", "glcbt-", &URLSAFE, 20),
    word("gitlab", "glffct-", &URLSAFE, 20),
    word("gitlab", "glft-", &URLSAFE, 20),
    word("gitlab", "glimt-", &URLSAFE, 20),
    word("gitlab", "glagent-", &URLSAFE, 40),
    word("gitlab", "gloas-", &URLSAFE, 40),
    word("gitlab", "glsoat-", &URLSAFE, 20),
    word("gitlab", "GR1348941", &URLSAFE, 20),
    weak("npm", "npm_", &ALNUM, 36),
    word("pypi", "pypi-AgE", &URLSAFE, 40),
    exact("crates_io", "cio", &ALNUM, 32),
    weak("rubygems", "rubygems_", &HEX, 48),
    word("docker", "dckr_pat_", &URLSAFE, 20),
    word("docker", "dckr_oat_", &URLSAFE, 20),
    sure("atlassian", "ATATT3", &BASE64_OR_URLSAFE, 60),
    weak("linear", "lin_api_", &ALNUM, 32),
    weak("notion", "ntn_", &ALNUM, 40),
    word("postman", "PMAK-", &URLSAFE, 50),
    // Chat, mail and payment.
    sure("slack", "xoxb-", &URLSAFE, 16),
    sure("slack", "xoxa-", &URLSAFE, 16),
    sure("slack", "xoxp-", &URLSAFE, 16),
    sure("slack", "xoxr-", &URLSAFE, 16),
    sure("slack", "xoxs-", &URLSAFE, 16),
    sure("slack", "xoxe-", &URLSAFE, 16),
    sure("slack", "xoxe.xox", &URLSAFE, 16),
    sure("slack", "xapp-", &URLSAFE, 16),
    webhook("slack", "hooks.slack.com/services/", &BASE64, 20),
    webhook("slack", "hooks.slack.com/workflows/", &BASE64, 20),
    webhook("slack", "hooks.slack.com/triggers/", &BASE64, 20),
    webhook("discord", "discord.com/api/webhooks/", &BASE64_OR_URLSAFE, 40),
    webhook("discord", "discordapp.com/api/webhooks/", &BASE64_OR_URLSAFE, 40),
    word("stripe", "sk_live_", &ALNUM, 16),
    word("stripe", "rk_live_", &ALNUM, 16),
    weak("stripe", "sk_test_", &ALNUM, 16),
    weak("stripe", "rk_test_", &ALNUM, 16),
    weak("stripe", "whsec_", &BASE64, 24),
    weak("sendgrid", "SG.", &URLSAFE_DOT, 60),
    word("shopify", "shpat_", &HEX, 32),
    word("shopify", "shpca_", &HEX, 32),
    word("shopify", "shppa_", &HEX, 32),
    word("shopify", "shpss_", &HEX, 32),
    exact("twilio", "SK", &HEX, 32),
    exact("mailgun", "key-", &HEX, 32),
    word("sendinblue", "xkeysib-", &URLSAFE, 60),
    weak("square", "sq0atp-", &URLSAFE, 22),
    weak("square", "sq0csp-", &URLSAFE, 40),
];

impl Token {
    /// Is there such a token at `at`?
    pub(crate) fn verify(&self, view: &View<'_>, at: usize, kind: Kind) -> Verdict {
        let text = view.text;
        if self.place == Place::WordStart && !view.word_begins(at) {
            return Verdict::No;
        }
        let body = match stands(text, at, self.prefix.as_bytes()) {
            Stands::No => return Verdict::No,
            // An address is not a secret; it is only remembered.
            Stands::Partly => {
                let hold = if self.address { text.len() } else { at };
                return Verdict::Pending(Pending::brief(hold));
            }
            Stands::Whole => at + self.prefix.len(),
        };
        let start = if self.address { body } else { at };
        let limit = body + self.max.saturating_add(1).min(CAP);
        let end = self.body.run(text, body, limit);
        let length = end - body;
        if length > self.max {
            return Verdict::No;
        }
        if length == CAP {
            let then = Then::Swallow(self.body);
            return Verdict::Found(Found { start, end, kind, then });
        }
        if end == text.len() {
            let partly = self.partly(&text[body..end]);
            let found = Found { start, end, kind, then: Then::Swallow(self.body) };
            return Verdict::Pending(Pending::begun(found, partly));
        }
        let secret = length >= self.min && self.believable(&text[body..end]);
        unless_marked(text, Found { start, end, kind, then: Then::Text }, secret)
    }

    fn believable(&self, body: &[u8]) -> bool {
        match self.trust {
            Trust::Prefix => !value::is_placeholder(body),
            Trust::Body => !value::is_placeholder(body) && value::looks_random(body),
        }
    }

    /// True when a token that is cut here can be recognised. It must be before 12 bytes of it are out.
    fn partly(&self, body: &[u8]) -> bool {
        let few = if self.address { 4 } else { 11_usize.saturating_sub(self.prefix.len()).clamp(1, 4) };
        let many = if self.address { 8 } else { 11_usize.saturating_sub(self.prefix.len()).max(1) };
        match self.trust {
            Trust::Prefix => body.len() >= few && !value::is_placeholder(body),
            // A longer prefix is no word, and there is no room to look at much of the body.
            Trust::Body if self.prefix.len() > 4 => body.len() >= few && !value::is_placeholder(body),
            Trust::Body if body.len() >= self.min => self.believable(body),
            Trust::Body => {
                (body.len() >= few && value::mixes(body)) || (body.len() >= many && !value::is_wordy(body))
            }
        }
    }
}
