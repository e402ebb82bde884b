//! The faults of the provider, each in the first answer to a prompt.

use turnstream_fake_provider::{
    Asked, Completion, CutBy, EventPlace, Fault, Finish, Raw, Refusal, RetryAfter, Step, WireFormat,
    find_event,
};

/// A fault, and what the page says about it.
pub(super) struct ProviderFault {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) is_in_short_form: bool,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Error,
    Limit,
    CutBeforeContent,
    CutInText,
    CutInArguments,
    CutAfterCall,
    NoBlankLine,
    Glued,
    SplicedInArguments,
    SplicedAfterCall,
    Stalled,
    Page,
    ErrorInSuccess,
    NoFinish,
}

/// Parts of the answer by which places in its stream are found.
pub(super) struct Marks {
    /// In the first piece of text.
    pub(super) text: &'static str,
    /// In the piece of the arguments after which they are cut.
    pub(super) arguments: &'static str,
    /// In the piece after that one.
    pub(super) next_arguments: &'static str,
    /// In the last piece of the arguments.
    pub(super) last_arguments: &'static str,
}

/// All faults, in the order of the page.
pub(super) const FAULTS: &[ProviderFault] = &[
    ProviderFault {
        name: "500",
        what: "The first request is answered with status 500.",
        is_in_short_form: false,
        kind: Kind::Error,
    },
    ProviderFault {
        name: "429 with retry-after",
        what: "The first request is answered with status 429 and `retry-after: 2`.",
        is_in_short_form: false,
        kind: Kind::Limit,
    },
    ProviderFault {
        name: "cut before content",
        what: "The connection is reset after the first event, which has no content.",
        is_in_short_form: false,
        kind: Kind::CutBeforeContent,
    },
    ProviderFault {
        name: "cut in text",
        what: "The connection is reset in the middle of the text.",
        is_in_short_form: false,
        kind: Kind::CutInText,
    },
    ProviderFault {
        name: "cut in tool arguments",
        what: "The connection is reset in the middle of the arguments of a tool call.",
        is_in_short_form: true,
        kind: Kind::CutInArguments,
    },
    ProviderFault {
        name: "cut after a tool call",
        what: "The connection is reset after a whole tool call, before the end of the answer.",
        is_in_short_form: false,
        kind: Kind::CutAfterCall,
    },
    ProviderFault {
        name: "missing blank line",
        what: "The blank line between two events is missing, in the middle of the arguments.",
        is_in_short_form: false,
        kind: Kind::NoBlankLine,
    },
    ProviderFault {
        name: "glued chunk",
        what: "In the middle of the arguments, half of an event is followed by another answer.",
        is_in_short_form: false,
        kind: Kind::Glued,
    },
    ProviderFault {
        name: "splice on an event boundary",
        what: "In the middle of the arguments, another answer to the same request begins, on the same stream.",
        is_in_short_form: true,
        kind: Kind::SplicedInArguments,
    },
    ProviderFault {
        name: "splice after a tool call",
        what: "After a whole tool call, another answer to the same request begins, on the same stream.",
        is_in_short_form: false,
        kind: Kind::SplicedAfterCall,
    },
    ProviderFault {
        name: "stall",
        what: "After the first piece of text nothing more comes. The connection stays open.",
        is_in_short_form: false,
        kind: Kind::Stalled,
    },
    ProviderFault {
        name: "HTML in 200",
        what: "The first request is answered with a web page and status 200.",
        is_in_short_form: false,
        kind: Kind::Page,
    },
    ProviderFault {
        name: "error in 200",
        what: "The first request is answered with the JSON of an error and status 200.",
        is_in_short_form: false,
        kind: Kind::ErrorInSuccess,
    },
    ProviderFault {
        name: "missing finish",
        what: "The stream ends in order after the tool call, without a finish and without the end of its format.",
        is_in_short_form: false,
        kind: Kind::NoFinish,
    },
];

impl ProviderFault {
    /// The answer with this fault.
    pub(super) fn step(&self, format: WireFormat, asked: &Asked, answer: Completion, marks: &Marks) -> Step {
        let whole = Step::new(answer.clone());
        let find = |is_wanted: &dyn Fn(&str) -> bool| -> EventPlace {
            find_event(format, &whole, asked, is_wanted)
                .unwrap_or_else(|| panic!("{}: no such event", self.name))
        };
        let with = |mark: &'static str| find(&move |event| event.contains(mark));
        let end_of_call = || match format {
            // Nothing says that the call is whole but its last piece.
            WireFormat::Chat => with(marks.last_arguments),
            WireFormat::Responses => {
                find(&|event| event.contains("response.output_item.done") && event.contains("function_call"))
            }
            WireFormat::Messages => {
                find(&|event| event.contains("content_block_stop") && event.contains("\"index\":1"))
            }
        };
        let reset = |place: EventPlace| Fault::Cut { after: place.end, by: CutBy::Rst };
        match self.kind {
            Kind::Error => Step::new(Refusal::new(500, "server_error", "It went wrong")),
            Kind::Limit => Step::new(
                Refusal::new(429, "rate_limit_error", "Too many requests")
                    .retry_after(RetryAfter::Seconds(2)),
            ),
            Kind::CutBeforeContent => whole.clone().fault(reset(with(""))),
            Kind::CutInText => whole.clone().fault(reset(with(marks.text))),
            Kind::CutInArguments => whole.clone().fault(reset(with(marks.arguments))),
            Kind::CutAfterCall => whole.clone().fault(reset(end_of_call())),
            Kind::NoBlankLine => {
                let place = with(marks.arguments);
                whole.clone().fault(Fault::MissingBlankLine { after_event: place.number })
            }
            // As a client's own runtime did to a sound provider (oven-sh/bun #28706).
            Kind::Glued => {
                let EventPlace { begin, end, .. } = with(marks.next_arguments);
                whole.clone().fault(Fault::Splice { after: begin.midpoint(end), second: answer })
            }
            Kind::SplicedInArguments => {
                let place = with(marks.arguments);
                whole.clone().fault(Fault::Splice { after: place.end, second: answer })
            }
            Kind::SplicedAfterCall => {
                whole.clone().fault(Fault::Splice { after: end_of_call().end, second: answer })
            }
            Kind::Stalled => whole.clone().fault(Fault::Stall {
                after: with(marks.text).end,
                lasts_ms: None,
                comment_every_ms: None,
            }),
            Kind::Page => Step::new(Raw {
                status: 200,
                content_type: "text/html".to_owned(),
                body: "<!doctype html><title>Bad gateway</title><h1>502 Bad gateway</h1>\n".into(),
            }),
            Kind::ErrorInSuccess => Step::new(Refusal::new(200, "overloaded_error", "Overloaded")),
            Kind::NoFinish => Step::new(answer.finished(Finish::Missing)),
        }
    }
}
