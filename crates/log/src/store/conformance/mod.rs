//! Tests that every store must pass, on a log on top of it. A new store implements [`Place`] and adds two
//! lines at the end of this file.

mod flapping;
mod imports;
mod pages;
mod removal;
mod replicas;
mod rules;
mod searches;
#[path = "../../../tests/it/support.rs"]
#[allow(dead_code, reason = "shared with the tests of the whole log, which use all of it")]
mod support;

use super::memory::Shared;
use super::{ClaimMode, Commit, Stale, Store, StoreError};
use crate::batch::Group;
use crate::embedded::{self, Embedded};
use crate::error::StoreFault;
use crate::log::{Log, LogBuilder, Options};
use crate::open::Abandoned;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Where a store keeps its data. A log that is opened there finds what earlier ones wrote.
trait Place: Sync {
    /// A log on this store, whose commits pass the gate.
    fn open(&self, gate: Gate) -> Log {
        self.open_with(gate, &support::options())
    }

    fn open_with(&self, gate: Gate, options: &Options) -> Log;
}

/// In a directory.
struct InDirectory(tempfile::TempDir);

/// In memory that several logs share.
#[derive(Default)]
struct InMemory(Shared);

/// Delays commits, or makes them fail.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Default)]
struct GateState {
    shut: Option<Side>,
    /// A commit waits at the gate.
    is_waiting: bool,
    failures: u32,
    /// The bytes of each commit that succeeded.
    commits: Vec<usize>,
}

/// At which moment the gate stops a commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    /// After it is durable, and before the log knows.
    Behind,
}

struct Gated(Box<dyn Commit>, Gate);

impl Place for InDirectory {
    fn open_with(&self, gate: Gate, options: &Options) -> Log {
        let (front, reports) = LogBuilder::new(options);
        let ready = embedded::open(self.0.path(), options).unwrap().ready;
        let (commits, store) = Embedded::start(ready, options, reports).unwrap();
        front.start(Box::new(Gated(Box::new(commits), gate)), Arc::new(store)).unwrap()
    }
}

impl Place for InMemory {
    fn open_with(&self, gate: Gate, options: &Options) -> Log {
        let (front, _) = LogBuilder::new(options);
        let (commits, store) = self.0.join(front.sessions.clone());
        front.start(Box::new(Gated(Box::new(commits), gate)), Arc::new(store)).unwrap()
    }
}

impl Gate {
    fn shut(&self, side: Side) {
        self.0.0.lock().unwrap().shut = Some(side);
    }

    fn open(&self) {
        self.0.0.lock().unwrap().shut = None;
        self.0.1.notify_all();
    }

    /// The next commits fail.
    fn fail(&self, times: u32) {
        self.0.0.lock().unwrap().failures = times;
    }

    fn commits(&self) -> Vec<usize> {
        self.0.0.lock().unwrap().commits.clone()
    }

    /// Waits until a commit stands at the closed gate.
    async fn arrival(&self) {
        until(|| self.0.0.lock().unwrap().is_waiting).await;
    }
}

impl Gate {
    fn pass(&self, side: Side) -> Result<(), StoreError> {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        while state.shut == Some(side) {
            state.is_waiting = true;
            state = changed.wait(state).unwrap();
        }
        state.is_waiting = false;
        if side == Side::Before && state.failures > 0 {
            state.failures -= 1;
            return Err(StoreError::Transient(StoreFault::new("the gate fails")));
        }
        Ok(())
    }
}

impl Commit for Gated {
    fn commit(&mut self, groups: &[Group]) -> Result<Vec<Stale>, StoreError> {
        self.1.pass(Side::Before)?;
        let stale = self.0.commit(groups)?;
        let bytes = groups.iter().map(|group| group.data.len()).sum();
        self.1.0.0.lock().unwrap().commits.push(bytes);
        self.1.pass(Side::Behind)?;
        Ok(stale)
    }

    fn published(&mut self, groups: Vec<Group>) {
        self.0.published(groups);
    }

    fn between_commits(&mut self) {
        self.0.between_commits();
    }
}

/// A log without a gate.
fn log_on(place: &dyn Place) -> Log {
    place.open(Gate::default())
}

fn store(log: &Log) -> &dyn Store {
    &*log.inner().store
}

fn abandoned(log: &Log) -> Vec<Abandoned> {
    store(log).abandoned().unwrap()
}

async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap();
}

macro_rules! every {
    ($module:ident, $place:expr, $rules:ident: $($rule:ident),+ $(,)?) => {
        mod $module {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $rule() {
                    super::$rules::$rule(&$place).await;
                }
            )+
        }
    };
}

macro_rules! a_store_passes {
    ($module:ident, $found:ident, $place:expr) => {
        every!($module, $place, rules:
            nothing_is_seen_before_its_commit,
            a_commit_that_fails_is_not_seen_and_not_lost,
            an_old_owner_is_refused_and_the_others_in_its_commit_are_not,
            a_new_owner_knows_what_the_old_one_committed,
            old_and_new_owner_in_one_commit_are_told_apart,
            numbers_have_no_holes,
            every_cursor_reads_exactly_the_rest,
            a_read_begins_where_it_is_asked_to_and_has_no_hole,
            a_snapshot_is_the_fold_at_its_seq,
            open_turns_are_found_by_the_epoch_that_started_them,
            a_session_has_one_owner_at_a_time,
            a_creator_that_was_taken_over_before_it_knew_is_refused,
            a_claim_that_nobody_waits_for_leaves_the_session_free,
            every_session_has_a_summary,
        );
        every!($found, $place, searches:
            a_finished_item_is_found_by_words_phrases_and_beginnings,
            what_is_not_whole_is_never_found,
            what_is_taken_back_is_not_found_any_more,
            a_revision_is_found_and_what_it_replaced_is_not,
            what_the_user_said_is_found_until_it_is_withdrawn,
            filters_let_through_what_fits_all_of_them,
            pages_neither_skip_nor_repeat_while_more_is_written,
            an_odd_query_finds_something_or_is_refused_with_a_reason,
            without_patience_pages_still_come_to_the_end_with_everything_once,
        );
    };
}

macro_rules! a_store_has_pages {
    ($module:ident, $place:expr) => {
        every!($module, $place, pages:
            pages_are_the_snapshot_cut_into_pieces,
            a_page_agrees_with_the_log_at_its_head,
            pages_go_on_where_they_were_while_items_come_and_go,
            a_page_of_large_items_is_cut_and_goes_on,
            pages_of_events_are_the_log,
            a_page_of_a_trimmed_session_has_what_is_kept,
        );
    };
}

macro_rules! a_store_imports {
    ($module:ident, $place:expr) => {
        every!($module, $place, imports:
            an_import_is_seen_whole_or_not_at_all,
            an_import_that_is_given_up_leaves_its_id_free,
            a_trimmed_session_is_imported_as_it_is,
            a_failing_disk_leaves_no_notice_in_an_import,
            a_finish_that_nobody_waits_for_shows_all_or_nothing,
        );
    };
}

macro_rules! a_store_forgets {
    ($module:ident, $place:expr) => {
        every!($module, $place, removal:
            a_deleted_session_is_found_by_nobody,
            an_owner_of_a_deleted_session_cannot_append,
            a_deleted_session_makes_room_for_another_of_its_name,
            a_follower_of_a_deleted_session_is_handed_the_rest_and_told,
            a_second_delete_finds_nothing,
            a_trimmed_session_begins_later_for_every_reader,
            a_trim_keeps_what_is_asked_for,
            a_trim_never_touches_what_is_open,
            a_cut_that_was_decided_on_another_base_is_refused,
            a_follower_that_is_behind_a_trim_is_reset,
            a_trimmed_session_goes_on,
        );
    };
}

macro_rules! a_shared_store_passes {
    ($module:ident, $place:expr) => {
        every!($module, $place, replicas:
            a_session_has_one_owner_among_all_replicas,
            a_replica_that_was_taken_over_is_refused,
            a_replica_goes_on_where_the_other_stopped,
            a_follower_sees_what_another_replica_commits,
            only_turns_of_a_replica_that_is_gone_are_abandoned,
        );
    };
}

a_store_passes!(in_a_directory, found_in_a_directory, InDirectory(tempfile::tempdir().unwrap()));
// Slow, and a property of the log: once is enough.
every!(large_in_a_directory, InDirectory(tempfile::tempdir().unwrap()), rules:
    more_than_a_commit_may_hold_goes_into_several);
a_store_has_pages!(pages_in_a_directory, InDirectory(tempfile::tempdir().unwrap()));
a_store_imports!(imported_into_a_directory, InDirectory(tempfile::tempdir().unwrap()));
a_store_forgets!(forgets_in_a_directory, InDirectory(tempfile::tempdir().unwrap()));
a_store_passes!(in_memory, found_in_memory, InMemory::default());
a_store_has_pages!(pages_in_memory, InMemory::default());
a_store_imports!(imported_into_memory, InMemory::default());
a_store_forgets!(forgets_in_memory, InMemory::default());
a_shared_store_passes!(shared_in_memory, InMemory::default());
