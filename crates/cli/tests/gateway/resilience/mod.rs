//! What a failing provider does to real agents, alone and behind the proxy. What is seen becomes the cells of
//! docs/resilience.md.

mod driver;
mod fault;
mod page;
mod trial;

use crate::generated_page::is_update;
use crate::support::is_full;
use driver::Driver;
use fault::FAULTS;
use std::collections::BTreeMap;
use trial::{Place, Trial};
use turnstream_testkit::agents::{Claude, Codex, Opencode};

/// Agents that run at the same time. One that starts uses a whole core.
const AT_ONCE: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn opencode_and_a_failing_provider() {
    trials_of::<Opencode>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_and_a_failing_provider() {
    trials_of::<Claude>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_and_a_failing_provider() {
    trials_of::<Codex>().await;
}

/// Whether a fault is to be tried: the variable `TURNSTREAM_FAULT` names one.
fn is_chosen(fault: &str) -> bool {
    std::env::var("TURNSTREAM_FAULT").map_or(true, |chosen| chosen == fault)
}

/// Runs the trials of an agent, and compares what was seen with the page.
async fn trials_of<D: Driver>() {
    let mut trials = Vec::new();
    for fault in FAULTS {
        for place in Place::ALL {
            let is_short = fault.is_in_short_form && place == Place::Proxy;
            if (is_full() || is_short) && is_chosen(fault.name) {
                trials.push(Trial::new::<D>(fault, place).await);
            }
        }
    }
    let gateway = trial::gateway(&trials);
    let mut seen: BTreeMap<Place, BTreeMap<&str, String>> = BTreeMap::new();
    let mut waiting = trials.into_iter();
    let mut running = tokio::task::JoinSet::new();
    loop {
        while running.len() < AT_ONCE
            && let Some(trial) = waiting.next()
        {
            let address = gateway.address.clone();
            running.spawn(async move { (trial.fault.name, trial.place, trial.run::<D>(&address).await) });
        }
        let Some(done) = running.join_next().await else { break };
        let (fault, place, found) = done.unwrap();
        println!("{} {place:?}: {fault}: {found:?}", D::NAME);
        if place == Place::Proxy {
            assert_eq!(found.wrong_calls, 0, "{fault} behind the proxy: {found:?}");
        }
        seen.entry(place).or_default().insert(fault, found.cell());
    }
    for (place, cells) in seen {
        // How often an agent that is alone asks again depends on its timing, and is no promise of ours.
        if place == Place::Proxy || is_update() {
            page::settle(&place.column(D::NAME), &cells);
        }
    }
}
