//! The text format of Prometheus, version 0.0.4: families of samples, each with its help and its type.

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only grows, and begins at zero with the gateway.
    Counter,
    /// A current value.
    Gauge,
    /// Counts of values by upper bound.
    Histogram,
}

/// A page that is being written.
#[derive(Default)]
pub(super) struct Page(String);

/// A family whose samples are being written.
pub(super) struct Family<'a> {
    page: &'a mut String,
    name: &'static str,
}

impl Page {
    /// Begins a family, whose name must be unique. Its samples follow.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let page = &mut self.0;
        page.push_str("# HELP ");
        page.push_str(name);
        page.push(' ');
        for letter in help.chars() {
            match letter {
                '\\' => page.push_str("\\\\"),
                '\n' => page.push_str("\\n"),
                other => page.push(other),
            }
        }
        for part in ["\n# TYPE ", name, " ", kind, "\n"] {
            page.push_str(part);
        }
        Family { page, name }
    }

    /// The whole text.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

impl Family<'_> {
    /// Writes a whole number.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: u64) {
        self.line("", labels, &value.to_string());
    }

    /// Writes a number of seconds.
    pub(super) fn seconds(&mut self, value: f64) {
        self.seconds_of(&[], value);
    }

    /// The same with labels.
    pub(super) fn seconds_of(&mut self, labels: &[(&str, &str)], value: f64) {
        self.line("", labels, &value.to_string());
    }

    /// Writes a histogram from cumulative counts by upper bound in seconds, the total count and the sum.
    pub(super) fn histogram(&mut self, within: &[(f64, u64)], count: u64, sum: f64) {
        for (bound, count) in within {
            self.line("_bucket", &[("le", &bound.to_string())], &count.to_string());
        }
        self.line("_bucket", &[("le", "+Inf")], &count.to_string());
        self.line("_sum", &[], &sum.to_string());
        self.line("_count", &[], &count.to_string());
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: &str) {
        self.page.push_str(self.name);
        self.page.push_str(suffix);
        for (place, (name, value)) in labels.iter().enumerate() {
            self.page.push(if place == 0 { '{' } else { ',' });
            self.page.push_str(name);
            self.page.push_str("=\"");
            for letter in value.chars() {
                match letter {
                    '\\' => self.page.push_str("\\\\"),
                    '"' => self.page.push_str("\\\""),
                    '\n' => self.page.push_str("\\n"),
                    other => self.page.push(other),
                }
            }
            self.page.push('"');
        }
        if !labels.is_empty() {
            self.page.push('}');
        }
        self.page.push(' ');
        self.page.push_str(value);
        self.page.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Page};

    #[test]
    fn a_page_is_written_as_the_format_wants_it() {
        let mut page = Page::default();
        let mut family = page.family("a_total", Kind::Counter, "Of \"a\\b\".\nMore.");
        family.sample(&[("agent", "quo\"te\\ and\nline"), ("code", "gap")], 3);
        page.family("b", Kind::Gauge, "B.").sample(&[], 0);
        page.family("c_seconds", Kind::Histogram, "C.").histogram(&[(0.0005, 1), (0.25, 2)], 4, 61.5);
        let expected = r#"# HELP a_total Of "a\\b".\nMore.
# TYPE a_total counter
a_total{agent="quo\"te\\ and\nline",code="gap"} 3
# HELP b B.
# TYPE b gauge
b 0
# HELP c_seconds C.
# TYPE c_seconds histogram
c_seconds_bucket{le="0.0005"} 1
c_seconds_bucket{le="0.25"} 2
c_seconds_bucket{le="+Inf"} 4
c_seconds_sum 61.5
c_seconds_count 4
"#;
        assert_eq!(page.into_text(), expected);
    }
}
