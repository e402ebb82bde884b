//! What a consumer is told of what a stream says. Whoever reads a plain wire format gets no half arguments: a call is told
//! when it is whole, so that nobody acts on half of one, and until then it can be dropped unseen.

use crate::attempt::{Item, ItemNo, Said};
use crate::retry::{Consumer, Shown};

/// Lets through what the consumer may see, and notes what it saw.
pub(super) struct Hold {
    consumer: Consumer,
    pub(super) shown: Shown,
    /// Bytes of text, reasoning and arguments that came, shown or not.
    pub(super) content: u64,
    pub(super) text: u64,
    pub(super) reasoning: u64,
}

impl Hold {
    pub(super) fn new(consumer: Consumer) -> Self {
        Self { consumer, shown: Shown::default(), content: 0, text: 0, reasoning: 0 }
    }

    /// What to tell for one thing that was said.
    pub(super) fn pass(&mut self, said: Said) -> Vec<Said> {
        match &said {
            Said::Text { item, text } | Said::Refusal { item, text } => {
                self.shown.delivered.text = true;
                self.text += text.len() as u64;
                self.content += text.len() as u64;
                self.show(*item);
            }
            Said::Reasoning { item, text } => {
                self.shown.delivered.reasoning = true;
                self.reasoning += text.len() as u64;
                self.content += text.len() as u64;
                self.show(*item);
            }
            Said::CallBegan { item, .. } => {
                self.shown.delivered.open_calls += 1;
                if self.consumer == Consumer::PlainWire {
                    return Vec::new();
                }
                self.show(*item);
            }
            Said::CallArguments { text, .. } => {
                self.content += text.len() as u64;
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
