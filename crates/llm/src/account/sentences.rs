//! Findings as sentences for people.

use turnstream_model::attempts::{Completion, Count, Findings, Loss, Verdict};

/// Describes the findings, one sentence each. `verdict` is `None` while the attempt runs.
pub fn sentences(verdict: Option<Verdict>, findings: &Findings) -> Vec<String> {
    let Findings { completions, anomalies, repairs, lost, .. } = findings;
    let mut all: Vec<String> =
        completions.iter().enumerate().map(|(place, of)| completion(place, of)).collect();
    all.extend(counted("Damaged", anomalies));
    all.extend(counted("Mended without loss", repairs));
    all.extend(lost.iter().map(loss));
    all.push(trust(verdict, findings));
    all
}

fn completion(place: usize, completion: &Completion) -> String {
    let Completion { id, from, to, whole } = completion;
    let name = id.as_deref().map_or_else(|| "without an id".to_owned(), |id| format!("{id:?}"));
    match (place, whole) {
        (0, true) => format!("Completion {name}: bytes {from} to {to}, whole."),
        (0, false) => format!("Completion {name}: bytes {from} to {to}, and it has no end."),
        (_, _) => format!(
            "Completion {name} begins at byte {from}: another answer, which nobody asked for here. Nothing of it was \
             used. Something on the way repeated the request."
        ),
    }
}

fn counted(what: &str, counts: &[Count]) -> Option<String> {
    let each = counts.iter().map(|Count { what, times, at }| {
        let at = at.map(|at| format!(" from byte {at}")).unwrap_or_default();
        let times = if *times == 1 { String::new() } else { format!(", {times} times") };
        format!("{what}{at}{times}")
    });
    let list: Vec<String> = each.collect();
    (!list.is_empty()).then(|| format!("{what}: {}.", list.join("; ")))
}

fn loss(loss: &Loss) -> String {
    let Loss { what, bytes, shown } = loss;
    if *shown {
        format!(
            "Lost: the rest of the {what}, of which {bytes} bytes came. It may be shown, marked as incomplete."
        )
    } else {
        format!(
            "Lost: a call of {what:?}, of whose arguments {bytes} bytes came. It was not run and must not be."
        )
    }
}

fn trust(verdict: Option<Verdict>, findings: &Findings) -> String {
    let calls = || findings.committed.iter().map(|call| format!("{call:?}")).collect::<Vec<_>>().join(", ");
    match verdict {
        Some(Verdict::Complete) if !findings.lost.is_empty() => {
            "All of it may be trusted, except for what is lost.".to_owned()
        }
        Some(Verdict::Complete) => "All of it may be trusted.".to_owned(),
        Some(Verdict::Truncated) => {
            format!("May be trusted: the calls of {}. They may have run. Nothing else of it counts.", calls())
        }
        Some(Verdict::Failed | Verdict::Cancelled) if !findings.committed.is_empty() => {
            format!("The calls of {} came whole; the log of the session says whether they ran. Nothing else counts.", calls())
        }
        Some(Verdict::Failed | Verdict::Cancelled) => "Nothing of it may be trusted.".to_owned(),
        Some(Verdict::Unknown) => {
            "Its owner went away before it ended: whether the request left, was answered and billed is not known."
                .to_owned()
        }
        None => "It has no end yet.".to_owned(),
    }
}
