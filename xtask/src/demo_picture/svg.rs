//! A recording as an animated SVG. Without animation it shows the end.

use super::screen::{Piece, Shown, Style};
use std::fmt::Write;

/// The size of a character, in pixels.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 19.0;
/// Around the text.
const MARGIN: f64 = 16.0;
/// The bar at the top of the window.
const BAR: f64 = 34.0;
/// How long the end is shown, in seconds.
const HOLD: f64 = 8.0;

/// Draws a recording.
pub(super) fn draw(shown: &Shown, columns: usize, rows: usize) -> String {
    let (width, height) = (columns as f64 * WIDTH + 2.0 * MARGIN, rows as f64 * HEIGHT + 2.0 * MARGIN + BAR);
    let whole = shown.end + HOLD;
    let top = MARGIN + BAR;
    let mut svg = String::new();
    // Writing to a String does not fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"A recording of turnstream demo\">\n<style>text{{\
         font:13.5px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}}\
         .p{{fill:#e6e6e6}}.s{{fill:#fff;font-weight:700}}.f{{fill:#8b95a1}}.g{{fill:#7ee787}}\
         .y{{fill:#e3b341}}</style>\n<rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"#0d1117\"/>\n"
    );
    for (place, colour) in ["#ff5f57", "#febc2e", "#28c840"].into_iter().enumerate() {
        let x = 20 + 20 * place;
        let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"18\" r=\"6\" fill=\"{colour}\"/>");
    }
    let _ = writeln!(
        svg,
        "<text class=\"f\" x=\"{:.0}\" y=\"22\" text-anchor=\"middle\">turnstream demo</text>",
        width / 2.0
    );
    let clip = format!("x=\"0\" y=\"{top}\" width=\"{width:.0}\" height=\"{:.0}\"", rows as f64 * HEIGHT);
    let _ = writeln!(svg, "<clipPath id=\"c\"><rect {clip}/></clipPath>\n<g clip-path=\"url(#c)\">");
    let scrolls = scrolls(shown, rows);
    let last = scrolls.last().map_or(0.0, |(_, lines)| -HEIGHT * *lines as f64);
    let _ = writeln!(svg, "<g transform=\"translate(0 {last})\">");
    if scrolls.len() > 1 {
        let times: Vec<String> = scrolls.iter().map(|(time, _)| format!("{:.4}", time / whole)).collect();
        let values: Vec<String> =
            scrolls.iter().map(|(_, lines)| format!("0 {}", -HEIGHT * *lines as f64)).collect();
        let _ = writeln!(
            svg,
            "<animateTransform attributeName=\"transform\" type=\"translate\" calcMode=\"discrete\" \
             dur=\"{whole:.2}s\" repeatCount=\"indefinite\" keyTimes=\"{}\" values=\"{}\"/>",
            times.join(";"),
            values.join(";")
        );
    }
    for piece in &shown.pieces {
        draw_piece(&mut svg, piece, top, whole);
    }
    svg.push_str("</g>\n</g>\n</svg>\n");
    svg
}

/// How many lines are above the window, from which time on.
fn scrolls(shown: &Shown, rows: usize) -> Vec<(f64, usize)> {
    let mut scrolls = vec![(0.0, 0)];
    for (line, time) in shown.line_times() {
        let above = (line + 1).saturating_sub(rows);
        if scrolls.last().is_some_and(|(_, last)| *last < above) {
            scrolls.push((time, above));
        }
    }
    scrolls
}

fn draw_piece(svg: &mut String, piece: &Piece, top: f64, whole: f64) {
    let Piece { line, column, text, style, from, until } = piece;
    let indent = text.len() - text.trim_start().len();
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    let (x, y) = (MARGIN + (column + indent) as f64 * WIDTH, top + (*line as f64 + 0.75) * HEIGHT);
    let length = text.chars().count() as f64 * WIDTH;
    let class = match style {
        Style::Plain => "p",
        Style::Strong => "s",
        Style::Faint => "f",
        Style::Green => "g",
        Style::Yellow => "y",
    };
    let (hidden, values, times) = match until {
        None => ("", "0;1", format!("0;{:.4}", from / whole)),
        Some(until) => (" opacity=\"0\"", "0;1;0", format!("0;{:.4};{:.4}", from / whole, until / whole)),
    };
    let _ = write!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\"{hidden}>{}",
        escaped(text)
    );
    if *from > 0.0 {
        let _ = write!(
            svg,
            "<animate attributeName=\"opacity\" calcMode=\"discrete\" dur=\"{whole:.2}s\" \
             repeatCount=\"indefinite\" keyTimes=\"{times}\" values=\"{values}\"/>"
        );
    }
    svg.push_str("</text>\n");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::screen;
    use super::{draw, scrolls};

    #[test]
    fn a_recording_scrolls_and_its_still_picture_is_its_end() {
        let lines = (0..5).map(|line| (f64::from(line), format!("line <{line}>\r\n")));
        let shown = screen::read(&lines.collect::<Vec<_>>());
        assert_eq!(scrolls(&shown, 3), [(0.0, 0), (3.0, 1), (4.0, 2)]);
        let svg = draw(&shown, 20, 3);
        assert!(svg.contains("line &lt;4&gt;") && svg.contains("translate(0 -38)"), "{svg}");
        assert_eq!(svg.matches("<animate ").count(), 4, "{svg}");
    }
}
