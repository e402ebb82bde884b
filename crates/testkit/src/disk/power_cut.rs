//! Decides which unsynced changes survive a power cut.

use super::history::{Content, History, State};

const SECTOR: u64 = 512;

/// What happens to changes that no sync covers. Changes that a completed sync covers always survive.
///
/// A sync of a file makes its content durable. A name (creation, rename, removal) needs a sync of its
/// directory, as POSIX says. ext4 often keeps names without that, which is one of the outcomes of `Subset`
/// and `Everything`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerCut {
    /// Nothing survives.
    Nothing,
    /// Everything survives, as after a kill.
    Everything,
    /// A random part of the content survives, in any order. Of the names a first part survives, because
    /// file systems journal them in order.
    Subset(u64),
    /// Everything survives except the last write, which is torn at a random sector boundary. Without a
    /// boundary it is lost, because a sector is written as a whole.
    Torn(u64),
}

/// What a power cut did, so that a test can check that it had an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutReport {
    /// Changes that a completed sync covers.
    pub durable: usize,
    /// Unsynced changes that survived.
    pub spared: usize,
    /// Changes that were lost.
    pub forgotten: usize,
    /// The kept bytes of the torn write.
    pub torn: Option<u64>,
}

/// How much of each change survives.
pub(super) struct Choice {
    /// For each file, for each change.
    pub(super) contents: Vec<Vec<Survival>>,
    /// For each change of names.
    pub(super) names: Vec<bool>,
    pub(super) report: CutReport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Survival {
    Whole,
    Prefix(u64),
    None,
}

/// Decides what survives. The same history and cut always give the same result.
pub(super) fn choose(history: &History<'_>, cut: PowerCut) -> Choice {
    let mut rng = match cut {
        PowerCut::Nothing | PowerCut::Everything => fastrand::Rng::with_seed(0),
        PowerCut::Subset(seed) | PowerCut::Torn(seed) => fastrand::Rng::with_seed(seed),
    };
    let names = choose_names(history, cut, &mut rng);
    let last_write = last_unsynced_write(history);
    let odds = 1 + rng.u64(..3);
    let mut report = CutReport::default();
    for (survives, change) in names.iter().zip(&history.names) {
        count(&mut report, change.unsynced.is_empty(), *survives);
    }
    let mut contents = Vec::with_capacity(history.files.len());
    for (file_index, file) in history.files.iter().enumerate() {
        let mut survivals = Vec::with_capacity(file.changes.len());
        for (index, change) in file.changes.iter().enumerate() {
            let durable = change.state == State::Durable;
            let survival = match cut {
                _ if durable => Survival::Whole,
                PowerCut::Nothing => Survival::None,
                PowerCut::Everything => Survival::Whole,
                PowerCut::Subset(_) if rng.u64(..4) < odds => Survival::Whole,
                PowerCut::Subset(_) => Survival::None,
                PowerCut::Torn(_) if last_write == Some((file_index, index)) => tear(&change.what, &mut rng),
                PowerCut::Torn(_) => Survival::Whole,
            };
            if let Survival::Prefix(kept) = survival {
                report.torn = Some(kept);
            }
            count(&mut report, durable, survival != Survival::None);
            survivals.push(survival);
        }
        contents.push(survivals);
    }
    Choice { contents, names, report }
}

fn choose_names(history: &History<'_>, cut: PowerCut, rng: &mut fastrand::Rng) -> Vec<bool> {
    let unsynced = history.names.iter().filter(|change| !change.unsynced.is_empty()).count();
    let mut spared = match cut {
        PowerCut::Nothing => 0,
        PowerCut::Everything | PowerCut::Torn(_) => unsynced,
        PowerCut::Subset(_) => rng.usize(..=unsynced),
    };
    let survives = |change: &super::history::NameChange| {
        if change.unsynced.is_empty() {
            return true;
        }
        let survives = spared > 0;
        spared = spared.saturating_sub(1);
        survives
    };
    history.names.iter().map(survives).collect()
}

fn last_unsynced_write(history: &History<'_>) -> Option<(usize, usize)> {
    let writes = history.files.iter().enumerate().flat_map(|(file, history)| {
        history.changes.iter().enumerate().map(move |(index, change)| (change, (file, index)))
    });
    writes
        .filter(|(change, _)| change.state != State::Durable && matches!(change.what, Content::Write { .. }))
        .max_by_key(|(change, _)| change.at)
        .map(|(_, place)| place)
}

fn tear(what: &Content, rng: &mut fastrand::Rng) -> Survival {
    let Content::Write { offset, data } = what else { return Survival::Whole };
    let first = (offset / SECTOR + 1) * SECTOR;
    let end = offset + data.len() as u64;
    if first >= end {
        return Survival::None;
    }
    let boundaries = (end - 1 - first) / SECTOR + 1;
    Survival::Prefix(first + rng.u64(..boundaries) * SECTOR - offset)
}

fn count(report: &mut CutReport, durable: bool, survives: bool) {
    match (durable, survives) {
        (true, _) => report.durable += 1,
        (false, true) => report.spared += 1,
        (false, false) => report.forgotten += 1,
    }
}

#[cfg(test)]
mod tests {
    use super::{Content, Survival, tear};

    #[test]
    fn a_write_is_torn_only_at_sector_boundaries_inside_it() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let write = Content::Write { offset: 700, data: 0..1500 };
            let Survival::Prefix(kept) = tear(&write, &mut rng) else { panic!("not torn") };
            assert!([1024 - 700, 1536 - 700, 2048 - 700].contains(&kept), "{kept}");
        }
    }

    #[test]
    fn a_write_inside_one_sector_is_lost_whole() {
        let mut rng = fastrand::Rng::with_seed(1);
        for (offset, length) in [(0, 512), (512, 512), (100, 300), (1000, 24)] {
            assert_eq!(tear(&Content::Write { offset, data: 0..length }, &mut rng), Survival::None);
        }
    }
}
