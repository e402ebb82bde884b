//! Text like that of real sessions: a few frequent words, many rare ones, and names from code.

use fastrand::Rng;

/// The number of words.
const VOCABULARY: usize = 60_000;

/// Makes texts from one vocabulary.
pub(crate) struct Writer {
    words: Vec<String>,
    random: Rng,
}

impl Writer {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let words = (0..VOCABULARY).map(|rank| word(rank, &mut random)).collect();
        Self { words, random }
    }

    /// The word of that rank: 0 is the most frequent.
    pub(crate) fn word(&self, rank: usize) -> &str {
        &self.words[rank]
    }

    /// A text of 5 to 200 words, mostly short ones.
    pub(crate) fn text(&mut self) -> String {
        let most = if self.random.u8(..) < 200 { 60 } else { 200 };
        let mut text = String::new();
        for _ in 0..self.random.usize(5..most) {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&self.words[rank(&mut self.random)]);
        }
        text
    }
}

/// Zipf's law: the frequency of a word is about one over its rank.
fn rank(random: &mut Rng) -> usize {
    let rank = (VOCABULARY as f64).powf(random.f64());
    (rank as usize).min(VOCABULARY) - 1
}

fn word(rank: usize, random: &mut Rng) -> String {
    const SYLLABLES: [&str; 24] = [
        "re", "try", "pol", "ic", "ses", "sion", "in", "dex", "com", "mit", "log", "ser", "ver", "to", "ken",
        "er", "ror", "par", "se", "str", "ing", "con", "fig", "load",
    ];
    let count = if rank < 200 { random.usize(1..3) } else { random.usize(2..5) };
    let mut word: String = (0..count).map(|_| SYLLABLES[random.usize(..SYLLABLES.len())]).collect();
    // Many rare words are names: some in camel case, some with underscores.
    match rank % 10 {
        7 if rank > 200 => word = format!("{word}{}", capital(SYLLABLES[random.usize(..SYLLABLES.len())])),
        8 if rank > 200 => word = format!("{word}_{rank}"),
        _ => {}
    }
    if rank > 5_000 {
        word.push_str(&format!("{rank:x}"));
    }
    word
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}
