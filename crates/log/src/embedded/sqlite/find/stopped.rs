//! Property tests of interrupted searches. FTS5 and the comparison of texts must agree, so a page that is
//! interrupted anywhere gives the same results. Whatever is written between two pages, entries that stay are
//! found exactly once.

use super::super::index;
use super::super::{imports, schema};
use super::*;
use crate::search::Entry;
use crate::search::budget::SearchBudget;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseResult;
use rusqlite::Transaction;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Pieces of texts and queries: whatever a tokenizer could misread.
const PIECES: &[&str] = &[
    "a",
    "b",
    "ab",
    "abc",
    "abcd",
    "abcde",
    "Ab",
    "AB",
    "fooBar",
    "FooBAR",
    "parseQueryString",
    "HTTPServer",
    "x1Y2",
    "Crème",
    "CREME",
    "e\u{301}te\u{301}",
    "\u{301}",
    "Straße",
    "STRASSE",
    "İstanbul",
    "ıI",
    "ΣΊΣΥΦΟΣ",
    "Σίσυφος",
    "Ёлка",
    "елка",
    "Ａｂ",
    "１２",
    "ﬁx",
    "K",
    "Å",
    "ǅ",
    "ñandú",
    "हिन्दी",
    "ภาษา",
    "検",
    "検索",
    "索検",
    "한국",
    "ﾊﾟ",
    "🚀",
    "👩‍💻",
    "☃",
    "ͅα",
    "ʹ",
    "·",
    "_",
    "__a",
    "_s1",
    "_kmessage",
    "a_b",
    "a-b",
    "--",
    "-",
    "'",
    "\"",
    "*",
    "^",
    ":",
    "(",
    ")",
    "{",
    "NOT",
    "AND",
    "NEAR",
    "OR",
    " ",
    "  ",
    "\n",
    "\t",
    "\0",
    "\u{a0}",
    "\u{200b}",
    "\u{200d}",
    "\u{ad}",
    "\u{fe0f}",
    ".",
    ",",
    "/",
    "é",
    "Éé",
    "aÉb",
    "ẞ",
    "Ǆ",
    "ᾼ",
    "Ω",
    "שׁ",
    "عَرَب",
    "𝐀b",
    "𐐀",
    "ⅷ",
    "²",
    "①",
    "0",
    "12",
    "ab12",
    "Ab12Cd",
];

/// A few of the pieces, so that texts and queries have some in common.
fn vocabulary() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::collection::vec(select(PIECES), 2..8)
}

fn text_of(vocabulary: Vec<&'static str>) -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![3 => select(vocabulary), 1 => select(&[" ", "-", "a", "B"][..])],
        1..12,
    )
    .prop_map(|pieces| pieces.concat())
}

fn text() -> impl Strategy<Value = String> {
    text_of(PIECES.to_vec())
}

/// A query made of pieces: phrases, unwanted words, prefixes, and combinations.
fn words_of(vocabulary: Vec<&'static str>) -> impl Strategy<Value = String> {
    let term = (proptest::collection::vec(select(vocabulary), 1..4), 0_u8..16).prop_map(|(pieces, shape)| {
        let quote = if shape & 1 == 1 { "\"" } else { "" };
        let (minus, star) = (if shape & 6 == 6 { "-" } else { "" }, if shape & 8 == 8 { "*" } else { "" });
        let between = if shape & 1 == 1 { " " } else { "" };
        format!("{minus}{quote}{}{star}{quote}", pieces.join(between))
    });
    proptest::collection::vec(term, 1..3).prop_map(|terms| terms.join(" "))
}

/// Texts, and queries for them.
fn texts_and_words() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
    vocabulary().prop_flat_map(|vocabulary| {
        let texts = proptest::collection::vec(text_of(vocabulary.clone()), 1..40);
        (texts, proptest::collection::vec(words_of(vocabulary), 1..8))
    })
}

/// A change between two pages.
#[derive(Clone, Debug)]
enum Change {
    Put(u64, String),
    ClaimMode(u64),
    Delete(i64),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0_u64..60, text()).prop_map(|(number, text)| Change::Put(number, text)),
        3 => (0_u64..60).prop_map(Change::ClaimMode),
        1 => (1_i64..3).prop_map(Change::Delete),
    ]
}

/// The session of an entry: two sessions take turns.
fn session_of(number: u64) -> i64 {
    1 + i64::from(number.is_multiple_of(3))
}

fn entry(number: u64, text: &str) -> Entry {
    let kind = if number.is_multiple_of(2) { ItemKind::Message } else { ItemKind::Reasoning };
    let role = number.is_multiple_of(4).then_some(Role::Assistant);
    let (subject, time) = (Subject::Item(format!("i{number}").into()), Time(number * 1_000));
    Entry { subject, turn: None, kind, role, time, text: text.to_owned() }
}

fn put(transaction: &Transaction<'_>, number: u64, text: &str) {
    let found = crate::projection::IndexChanges {
        agent: "agent".to_owned(),
        entries: vec![entry(number, text)],
        gone: Vec::new(),
    };
    index::write(transaction, session_of(number), &found).unwrap();
}

fn database(directory: &Path, texts: &[String]) -> (PathBuf, Connection) {
    let path = directory.join("log.db");
    drop(schema::open(&path).unwrap());
    let mut connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA synchronous = off").unwrap();
    let transaction = connection.transaction().unwrap();
    transaction.execute_batch(imports::TABLE).unwrap();
    transaction.execute_batch("INSERT INTO session VALUES (1, 's1', 'g', 1), (2, 's2', 'g', 1)").unwrap();
    for (number, text) in texts.iter().enumerate() {
        put(&transaction, number as u64, text);
    }
    transaction.commit().unwrap();
    (path, connection)
}

fn apply(connection: &mut Connection, change: &Change) {
    let transaction = connection.transaction().unwrap();
    match change {
        Change::Put(number, text) => put(&transaction, *number, text),
        Change::ClaimMode(number) => {
            let subject = Subject::Item(format!("i{number}").into());
            index::remove(&transaction, session_of(*number), &subject).unwrap();
        }
        Change::Delete(session) => {
            transaction.execute("DELETE FROM session WHERE key = ?1", [session]).unwrap();
            index::remove_entries(&transaction, *session, 3).unwrap();
        }
    }
    transaction.commit().unwrap();
}

#[derive(Clone, Debug)]
struct Filters {
    session: Option<i64>,
    role: Option<Role>,
    kind: Option<ItemKind>,
    times: Option<(u64, u64)>,
}

fn filters() -> impl Strategy<Value = Filters> {
    (0_u8..12, 0_u64..30).prop_map(|(shape, from)| Filters {
        session: (shape == 1).then_some(1),
        role: (shape == 2).then_some(Role::Assistant),
        kind: (shape == 3 || shape == 4).then_some(ItemKind::Reasoning),
        times: (shape == 4 || shape == 5).then_some((from * 1_000, (from + 20) * 1_000)),
    })
}

fn search(
    terms: &Terms,
    filters: &Filters,
    limit: usize,
    after: Option<IndexPosition>,
    budget: SearchBudget,
) -> Search {
    Search {
        terms: terms.clone(),
        session: filters.session,
        agent: None,
        role: filters.role,
        kind: filters.kind,
        from: filters.times.map(|(from, _)| Time(from)),
        to: filters.times.map(|(_, to)| Time(to)),
        limit,
        after,
        budget: Arc::new(budget),
    }
}

fn name_of(hit: &Hit) -> String {
    let Subject::Item(item) = &hit.subject else { panic!("{hit:?}") };
    item.as_str().to_owned()
}

/// The entries in the index, by id and ordinal. An entry with another ordinal is another entry.
fn there(connection: &Connection) -> BTreeSet<(String, i64)> {
    let mut query = connection
        .prepare("SELECT entry.id, ordinal FROM entry JOIN session ON session.key = entry.session")
        .unwrap();
    query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Everything that FTS5 finds without interruption.
fn unstopped(connection: &mut Connection, terms: &Terms, filters: &Filters) -> Vec<Hit> {
    let (mut hits, mut after) = (Vec::new(), None);
    loop {
        let asked = search(terms, filters, 100, after, SearchBudget::of_asking(u64::MAX));
        let page = find(connection, &asked).unwrap();
        assert!(!page.is_incomplete);
        hits.extend(page.hits);
        after = page.next;
        if after.is_none() {
            return hits;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_stopped_at_any_step_finds_what_is_found_unstopped(
        (texts, queries) in texts_and_words(),
        filters in filters(),
        limit in 1_usize..6,
        stride in 1_u64..12,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let (path, mut connection) = database(directory.path(), &texts);
        for terms in queries.iter().filter_map(|words| Terms::parse(words).ok()) {
            let expected = unstopped(&mut connection, &terms, &filters);
            for most in (0..).map(|step| step * stride) {
                // A fresh connection is interrupted at other steps than one that has read before.
                let mut fresh = schema::open_reader(&path).unwrap();
                let used = if most % 2 == 0 { &mut fresh } else { &mut connection };
                let (hits, incomplete) = stopped(used, |after| {
                    search(&terms, &filters, limit, after, SearchBudget::of_asking(most))
                })?;
                prop_assert_eq!(&hits, &expected, "{:?} stopped at {}", terms, most);
                if incomplete == 0 {
                    break;
                }
            }
        }
    }

    #[test]
    fn whatever_is_written_between_pages_what_stays_is_found_once(
        texts in proptest::collection::vec(text(), 10..50),
        words in select(&["a", "a*", "ab* -é", "\"a b\"", "検 -a", "foo bar", "x*", "ab"][..]),
        changes in proptest::collection::vec(proptest::collection::vec(change(), 0..4), 1..12),
        limit in 1_usize..5,
        most in 0_u64..30,
    ) {
        let Ok(terms) = Terms::parse(words) else { return Ok(()) };
        paged_while_written(&texts, &terms, &changes, limit, most)?;
    }
}

/// All pages, and how many of them were incomplete.
fn stopped(
    connection: &mut Connection,
    asked: impl Fn(Option<IndexPosition>) -> Search,
) -> Result<(Vec<Hit>, usize), TestCaseError> {
    let (mut hits, mut after, mut incomplete) = (Vec::new(), None::<IndexPosition>, 0);
    loop {
        let asked = asked(after);
        let page = find_asking(connection, &asked, 1).unwrap();
        prop_assert!(page.hits.len() <= asked.limit);
        prop_assert!(!page.is_incomplete || page.next.is_some() && page.hits.len() < asked.limit);
        hits.extend(page.hits);
        incomplete += usize::from(page.is_incomplete);
        let Some(next) = page.next else { return Ok((hits, incomplete)) };
        prop_assert!(after.is_none_or(|after| next.ordinal < after.ordinal));
        after = Some(next);
    }
}

fn paged_while_written(
    texts: &[String],
    terms: &Terms,
    changes: &[Vec<Change>],
    limit: usize,
    most: u64,
) -> TestCaseResult {
    let everything = Filters { session: None, role: None, kind: None, times: None };
    let directory = tempfile::tempdir().unwrap();
    let (path, mut writing) = database(directory.path(), texts);
    let mut reading = schema::open_reader(&path).unwrap();
    let matching = |connection: &mut Connection| -> BTreeSet<String> {
        unstopped(connection, terms, &everything).iter().map(name_of).collect()
    };
    let (entries, mut stayed) = (there(&writing), matching(&mut writing));
    let (mut seen, mut after) = (Vec::new(), None);
    let mut changes = changes.iter();
    loop {
        let asked = search(terms, &everything, limit, after, SearchBudget::of_asking(most));
        let page = find_asking(&mut reading, &asked, 1).unwrap();
        let now = matching(&mut writing);
        for hit in &page.hits {
            prop_assert!(now.contains(&name_of(hit)), "{:?} is not there", hit);
        }
        seen.extend(page.hits.iter().map(name_of));
        after = page.next;
        if after.is_none() {
            break;
        }
        for change in changes.next().into_iter().flatten() {
            apply(&mut writing, change);
            let now = matching(&mut writing);
            stayed.retain(|name| now.contains(name));
        }
    }
    let once: BTreeSet<String> = seen.iter().cloned().collect();
    prop_assert_eq!(once.len(), seen.len(), "something was found twice: {:?}", seen);
    let same: BTreeSet<String> =
        entries.intersection(&there(&writing)).map(|(name, _)| name.clone()).collect();
    let missed: Vec<&String> = stayed.intersection(&same).filter(|name| !once.contains(*name)).collect();
    prop_assert_eq!(missed, Vec::<&String>::new());
    Ok(())
}
