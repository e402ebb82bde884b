//! The words that providers write into `type`, `code` and `status` of an error, and their classes.

use turnstream_model::event::ErrorClass::{
    self, Auth, ContextOverflow, InvalidRequest, ModelUnavailable, Overloaded, ProviderError, QuotaExhausted,
    RateLimited, Refused,
};

/// Known words, in lower-case letters and digits: providers write `rate_limit_error`, `RateLimitError` and
/// `rate-limit-error`.
const WORDS: &[(ErrorClass, &[&str])] = &[
    (
        RateLimited,
        &[
            "ratelimiterror",
            "ratelimitexceeded",
            "ratelimitreachederror",
            "ratelimited",
            "ratelimit",
            "toomanyrequests",
            "toomanyrequestsexception",
            "limitrequests",
            "requests",
            "tokens",
            "resourceexhausted",
            "throttling",
            "throttlingexception",
            "throttlingerror",
            "throttlingratequota",
            "throttlingburstrate",
            "throttled",
            "tokensperminutelimitexceeded",
        ],
    ),
    (
        QuotaExhausted,
        &[
            "insufficientquota",
            "insufficientquotaerror",
            "quotaexceeded",
            "quotaexhausted",
            "exceededcurrentquotaerror",
            "freeusagelimiterror",
            "freeusagelimit",
            "usagelimitreached",
            "usagelimiterror",
            "usagenotincluded",
            "billinghardlimitreached",
            "billingnotactive",
            "billingerror",
            "insufficientbalance",
            "insufficientcredits",
            "creditserror",
            "monthlylimiterror",
            "paymentrequired",
            "throttlingallocationquota",
            // Z.ai: no balance.
            "1113",
            "servicequotaexceededexception",
        ],
    ),
    (
        Overloaded,
        &[
            "overloadederror",
            "overloaded",
            "serverisoverloaded",
            "serveroverloaded",
            "slowdown",
            "engineoverloaded",
            "engineoverloadederror",
            "modeloverloaded",
            "unavailable",
            "serviceunavailable",
            "serviceunavailableerror",
            "serviceunavailableexception",
            "modelnotreadyexception",
            "flextiercapacityexceeded",
            "capacityexceeded",
        ],
    ),
    (
        ProviderError,
        &[
            "servererror",
            "apierror",
            "internalerror",
            "internalservererror",
            "internalserverexception",
            "internal",
            "internalfailure",
            "badgateway",
            "gatewaytimeout",
            "timeouterror",
            "requesttimeout",
            "deadlineexceeded",
            "upstreamerror",
            "providererror",
            "modelstreamerrorexception",
            "modelerrorexception",
            "modeltimeoutexception",
            "vectorstoretimeout",
        ],
    ),
    (
        ContextOverflow,
        &[
            "contextlengthexceeded",
            "contextwindowexceeded",
            "contextlengtherror",
            "modelcontextwindowexceeded",
            "exceedcontextsizeerror",
            "requesttoolarge",
            "maxtokensexceeded",
            "inputtoolong",
            // Perplexity and Cohere.
            "toomanyprompttokens",
            "toomanytokens",
        ],
    ),
    (
        Refused,
        &[
            "contentfilter",
            "contentpolicyviolation",
            "contentpolicy",
            "cyberpolicy",
            "datainspectionfailed",
            "responsibleaipolicyviolation",
            "invalidprompt",
            "moderationblocked",
            "sensitive",
            "safety",
        ],
    ),
    (
        Auth,
        &[
            "authenticationerror",
            "autherror",
            "unauthorized",
            "unauthenticated",
            "invalidapikey",
            "invalidauthenticationerror",
            "incorrectapikeyerror",
            "permissionerror",
            "permissiondenied",
            "permissiondeniederror",
            "accessdenied",
            "accessdeniedexception",
            "accountdeactivated",
            "apikeyinvalid",
            "apikeyexpired",
            "apikeyserviceblocked",
            "unrecognizedclientexception",
            "expiredtokenexception",
            "forbidden",
        ],
    ),
    (
        ModelUnavailable,
        &[
            "modelnotfound",
            "modelnotfounderror",
            "modelerror",
            "modelnotavailable",
            "modelnotsupported",
            "unsupportedmodel",
            "invalidmodel",
            "notfounderror",
            "notfound",
            "resourcenotfoundexception",
            "resourcenotfounderror",
            "deploymentnotfound",
        ],
    ),
    (
        InvalidRequest,
        &[
            "invalidrequesterror",
            "invalidrequest",
            "invalidargument",
            "invalidparameter",
            "invalidparametererror",
            "unsupportedparameter",
            "unsupportedvalue",
            "missingrequiredparameter",
            "unknownparameter",
            "invalidtype",
            "invalidvalue",
            "validationerror",
            "validationexception",
            "badrequest",
            "badrequesterror",
            "failedprecondition",
        ],
    ),
];

/// Words that some providers and gateways put on every error.
///
/// DeepSeek's 401 and 402 have the code `invalid_request_error` (deepseek-ai/DeepSeek-R1 #82, Aider #4851).
/// Gateways call every error of a provider `upstream_error`.
const VAGUE: &[&str] = &[
    "invalidrequesterror",
    "invalidrequest",
    "badrequest",
    "badrequesterror",
    "apierror",
    "servererror",
    "upstreamerror",
    "providererror",
];

/// How specific a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// The word decides the class.
    Telling,
    /// The word decides only if nothing more specific does.
    Vague,
}

/// The class of a provider's word, if the word is known.
pub(super) fn class(word: &str) -> Option<(ErrorClass, Weight)> {
    let plain: String =
        word.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
    let weight = if VAGUE.contains(&plain.as_str()) { Weight::Vague } else { Weight::Telling };
    WORDS.iter().find(|(_, words)| words.contains(&plain.as_str())).map(|(class, _)| (*class, weight))
}

#[cfg(test)]
mod tests {
    use super::{VAGUE, WORDS};
    use std::collections::BTreeSet;

    #[test]
    fn every_word_is_there_once_and_written_plainly() {
        let all: Vec<&str> = WORDS.iter().flat_map(|(_, words)| words.iter().copied()).collect();
        let plain = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        assert!(all.iter().all(plain));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert!(VAGUE.iter().all(|word| all.contains(word)));
    }
}
