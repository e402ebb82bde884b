//! Which events of a stream a consumer sees.
//!
//! A consumer of a plain wire format sees a tool call only when it is complete. So it never acts on half a
//! call, and until then the call can be dropped unseen.

use crate::account::ReceivedBytes;
use crate::attempt::{Item, ItemNo, StreamEvent};
use crate::retry::{Consumer, Shown};

/// Filters the events for the consumer and records what it was shown.
pub(super) struct DeliveryFilter {
    consumer: Consumer,
    pub(super) shown: Shown,
    pub(super) received: ReceivedBytes,
}

impl DeliveryFilter {
    pub(super) fn new(consumer: Consumer) -> Self {
        Self { consumer, shown: Shown::default(), received: ReceivedBytes::default() }
    }

    /// The events to deliver for one event of the stream.
    pub(super) fn filter(&mut self, event: StreamEvent) -> Vec<StreamEvent> {
        self.received.count(&event);
        match &event {
            StreamEvent::Text { item, .. } | StreamEvent::Refusal { item, .. } => {
                self.shown.delivered.text = true;
                self.show(*item);
            }
            StreamEvent::Reasoning { item, .. } => {
                self.shown.delivered.reasoning = true;
                self.show(*item);
            }
            StreamEvent::CallStarted { item, .. } => {
                self.shown.delivered.open_calls += 1;
                if self.consumer == Consumer::PlainWire {
                    return Vec::new();
                }
                self.show(*item);
            }
            StreamEvent::CallArguments { .. } => {
                if self.consumer == Consumer::PlainWire {
                    return Vec::new();
                }
            }
            StreamEvent::Committed(committed) => return self.commit(committed.clone()),
            StreamEvent::Opened { .. }
            | StreamEvent::ReasoningData { .. }
            | StreamEvent::Unread { .. }
            | StreamEvent::Usage(_)
            | StreamEvent::Finish(_)
            | StreamEvent::ProviderFailed(_)
            | StreamEvent::KeepAlive
            | StreamEvent::Tainted { .. } => {}
        }
        vec![event]
    }

    fn commit(&mut self, item: Item) -> Vec<StreamEvent> {
        self.show(item.number());
        let Item::Call(call) = &item else { return vec![StreamEvent::Committed(item)] };
        let delivered = &mut self.shown.delivered;
        delivered.committed_calls += 1;
        delivered.open_calls = delivered.open_calls.saturating_sub(1);
        match self.consumer {
            Consumer::AttemptAware => vec![StreamEvent::Committed(item)],
            Consumer::PlainWire => {
                let (number, id, name) = (call.item, call.id.clone(), call.name.clone());
                let arguments = StreamEvent::CallArguments { item: number, text: call.arguments.clone() };
                vec![
                    StreamEvent::CallStarted { item: number, id, name },
                    arguments,
                    StreamEvent::Committed(item),
                ]
            }
        }
    }

    fn show(&mut self, item: ItemNo) {
        if !self.shown.items.contains(&item) {
            self.shown.items.push(item);
        }
    }
}
