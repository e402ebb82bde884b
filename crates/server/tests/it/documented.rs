//! The documentation names every problem, with its status.

use turnstream_server::Kind;

#[test]
fn every_problem_is_in_the_documentation() {
    let page = include_str!("../../../../docs/http.md");
    for kind in Kind::ALL {
        let row = format!("| `{}` | {} |", kind.name(), kind.status());
        assert!(page.contains(&row), "docs/http.md lacks: {row}");
    }
}
