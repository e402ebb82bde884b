//! Which subscribers get the events of a session: its own, and those of the sessions it descends from.

use std::collections::{HashMap, VecDeque};

/// The most children that are kept; the oldest are dropped first. A subscriber can add a child itself.
const CHILDREN: usize = 65_536;
/// The most generations that are followed. By default subagents of opencode cannot start subagents.
const GENERATIONS: usize = 32;

/// The listeners of one bus by session, and the parent of each session.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    listeners: HashMap<String, Vec<u64>>,
    parents: HashMap<String, String>,
    /// The children, oldest first.
    order: VecDeque<String>,
}

impl Lineage {
    /// Adds a listener to a session and its descendants.
    pub(super) fn listen(&mut self, session: &str, listener: u64) {
        let listeners = self.listeners.entry(session.to_owned()).or_default();
        if !listeners.contains(&listener) {
            listeners.push(listener);
        }
    }

    /// Removes a listener.
    pub(super) fn forget(&mut self, listener: u64) {
        self.listeners.retain(|_, listeners| {
            listeners.retain(|known| *known != listener);
            !listeners.is_empty()
        });
    }

    /// Notes that one session created another.
    pub(super) fn learn(&mut self, child: &str, parent: &str) {
        if self.parents.contains_key(child) {
            return;
        }
        if self.order.len() == CHILDREN
            && let Some(oldest) = self.order.pop_front()
        {
            self.parents.remove(&oldest);
        }
        self.parents.insert(child.to_owned(), parent.to_owned());
        self.order.push_back(child.to_owned());
    }

    /// The listeners of a session, each once.
    pub(super) fn audience(&self, session: &str, audience: &mut Vec<u64>) {
        audience.clear();
        let mut at = session;
        // Bounded: a cycle in the data of the server must not block the reader.
        for _ in 0..GENERATIONS {
            for listener in self.listeners.get(at).into_iter().flatten() {
                if !audience.contains(listener) {
                    audience.push(*listener);
                }
            }
            match self.parents.get(at) {
                Some(parent) => at = parent,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audience(lineage: &Lineage, session: &str) -> Vec<u64> {
        let mut audience = Vec::new();
        lineage.audience(session, &mut audience);
        audience
    }

    #[test]
    fn descendants_are_heard_by_those_above_them_and_by_nobody_else() {
        let mut lineage = Lineage::default();
        lineage.listen("root", 1);
        lineage.listen("other", 2);
        lineage.learn("child", "root");
        lineage.learn("grandchild", "child");
        lineage.learn("stranger", "unknown");
        assert_eq!(audience(&lineage, "root"), [1]);
        assert_eq!(audience(&lineage, "grandchild"), [1]);
        assert_eq!(audience(&lineage, "other"), [2]);
        assert_eq!(audience(&lineage, "stranger"), [0; 0]);
    }

    #[test]
    fn who_listens_twice_hears_once() {
        let mut lineage = Lineage::default();
        lineage.listen("root", 1);
        lineage.listen("child", 1);
        lineage.listen("child", 1);
        lineage.learn("child", "root");
        assert_eq!(audience(&lineage, "child"), [1]);
        lineage.forget(1);
        assert_eq!(audience(&lineage, "child"), [0; 0]);
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let mut lineage = Lineage::default();
        lineage.learn("a", "b");
        lineage.learn("b", "a");
        lineage.listen("b", 1);
        assert_eq!(audience(&lineage, "a"), [1]);
    }

    #[test]
    fn only_so_many_children_are_remembered() {
        let mut lineage = Lineage::default();
        lineage.listen("root", 1);
        for child in 0..=CHILDREN {
            lineage.learn(&format!("child{child}"), "root");
        }
        assert_eq!(audience(&lineage, "child0"), [0; 0]);
        assert_eq!(audience(&lineage, &format!("child{CHILDREN}")), [1]);
        assert_eq!(lineage.parents.len(), CHILDREN);
    }
}
