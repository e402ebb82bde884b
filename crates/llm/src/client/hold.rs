//! What a consumer is told of what a stream says. Whoever reads a plain wire format gets no half arguments: a call is told
//! when it is whole, so that nobody acts on half of one, and until then it can be dropped unseen.

use crate::account::Heard;
use crate::attempt::{Item, ItemNo, Said};
use crate::retry::{Consumer, Shown};

/// Lets through what the consumer may see, and notes what it saw.
pub(super) struct Hold {
    consumer: Consumer,
    pub(super) shown: Shown,
    pub(super) heard: Heard,
}

impl Hold {
    pub(super) fn new(consumer: Consumer) -> Self {
        Self { consumer, shown: Shown::default(), heard: Heard::default() }
    }

    /// What to tell for one thing that was said.
    pub(super) fn pass(&mut self, said: Said) -> Vec<Said> {
        self.heard.hear(&said);
        match &said {
            Said::Text { item, .. } | Said::Refusal { item, .. } => {
                self.shown.delivered.text = true;
                self.show(*item);
            }
            Said::Reasoning { item, .. } => {
                self.shown.delivered.reasoning = true;
                self.show(*item);
            }
            Said::CallBegan { item, .. } => {
                self.shown.delivered.open_calls += 1;
                if self.consumer == Consumer::PlainWire {
                    return Vec::new();
                }
                self.show(*item);
            }
            Said::CallArguments { .. } => {
                if self.consumer == Consumer::PlainWire {
                    return Vec::new();
                }
            }
            Said::Committed(committed) => return self.commit(committed.clone()),
            Said::Opened { .. }
            | Said::ReasoningKept { .. }
            | Said::Usage(_)
            | Said::Finish(_)
            | Said::ProviderFailed(_)
            | Said::Alive
            | Said::Tainted { .. } => {}
        }
        vec![said]
    }

    fn commit(&mut self, item: Item) -> Vec<Said> {
        self.show(item.number());
        let Item::Call(call) = &item else { return vec![Said::Committed(item)] };
        let delivered = &mut self.shown.delivered;
        delivered.committed_calls += 1;
        delivered.open_calls = delivered.open_calls.saturating_sub(1);
        match self.consumer {
            Consumer::AttemptAware => vec![Said::Committed(item)],
            Consumer::PlainWire => {
                let (number, id, name) = (call.item, call.id.clone(), call.name.clone());
                let arguments = Said::CallArguments { item: number, text: call.arguments.clone() };
                vec![Said::CallBegan { item: number, id, name }, arguments, Said::Committed(item)]
            }
        }
    }

    fn show(&mut self, item: ItemNo) {
        if !self.shown.items.contains(&item) {
            self.shown.items.push(item);
        }
    }
}
