//! Damaged policies: whatever happens to a file, it gives a plan that holds together or errors that
//! say where, and never a panic.

use proptest::prelude::*;
use weirgate::policy::file::Policy;
use weirgate::policy::finding::Origin;

use crate::Files;

const EXAMPLES: [&str; 6] = [
    include_str!("../../policies/sidecar.yaml"),
    include_str!("../../policies/legacy.yaml"),
    include_str!("../../policies/lagging.yaml"),
    include_str!("../../policies/browser.yaml"),
    include_str!("../../policies/team/gateway.yaml"),
    include_str!("../../policies/team/weather.yaml"),
];

/// What people and broken tools put into YAML.
const PIECES: [&str; 34] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    ",",
    "- ",
    "\n",
    "\n  ",
    "\t",
    "#",
    "&a ",
    "*a",
    "!t ",
    "|\n",
    ">\n",
    "\"",
    "'",
    "? ",
    "---\n",
    "...\n",
    "<<: ",
    "%YAML 1.1\n",
    "\r",
    "\u{0}",
    "é",
    "\u{feff}",
    "\u{85}",
    "@",
    "999999999999999999999Gi",
    "routes:\n",
    "bounds: { buffer_bytes: 1Gi }",
    "http://u:p@h/?x",
];

#[derive(Clone, Debug)]
enum Edit {
    Insert(prop::sample::Index, prop::sample::Index),
    Delete(prop::sample::Index, usize),
    Double(prop::sample::Index),
    Swap(prop::sample::Index, prop::sample::Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), index()).prop_map(|(at, piece)| Edit::Insert(at, piece)),
        (index(), 1..20usize).prop_map(|(at, length)| Edit::Delete(at, length)),
        index().prop_map(Edit::Double),
        (index(), index()).prop_map(|(a, b)| Edit::Swap(a, b)),
    ]
}

fn apply(text: &str, edit: &Edit) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let mut lines: Vec<&str> = text.lines().collect();
    match edit {
        Edit::Insert(at, piece) => {
            let at = at.index(chars.len() + 1);
            let piece = PIECES[piece.index(PIECES.len())];
            chars.splice(at..at, piece.chars());
            return chars.into_iter().collect();
        }
        Edit::Delete(at, length) => {
            let at = at.index(chars.len() + 1);
            chars.drain(at..(at + length).min(chars.len()));
            return chars.into_iter().collect();
        }
        Edit::Double(at) if !lines.is_empty() => {
            let at = at.index(lines.len());
            lines.insert(at, lines[at]);
        }
        Edit::Swap(a, b) if !lines.is_empty() => {
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            lines.swap(a, b);
        }
        Edit::Double(_) | Edit::Swap(..) => {}
    }
    lines.join("\n") + "\n"
}

fn assert_holds_together(policy: &Policy) {
    for route in &policy.plan.routes {
        assert!(route.bounds.buffer_bytes <= route.bounds.body_bytes_max);
        assert!(route.path.starts_with('/') && !route.name.is_empty());
        assert!(route.protocol.versions.iter().next().is_some());
        assert!(
            route
                .upstream
                .authority
                .parse::<http::uri::Authority>()
                .is_ok()
        );
    }
    assert!(!policy.plan.routes.is_empty());
}

fn assert_plan_or_places(files: &Files, text: &str) {
    let errors = match files.load() {
        Ok(policy) => return assert_holds_together(&policy),
        Err(errors) => errors,
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for finding in errors.findings() {
        assert!(!finding.cause.is_empty() && !finding.hint.is_empty());
        match &finding.origin {
            Origin::File(place) => {
                assert!((1..=lines.len().max(1) + 1).contains(&place.line) || text.contains('\r'));
                assert!(place.column >= 1);
            }
            Origin::Argument(name) => assert_eq!(name, "policy", "{finding:?}"),
        }
    }
    assert!(errors.render(true).len() > 20);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").map_or(512, |cases| cases.parse().unwrap()),
        // The tests run where the sources may be read-only.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn damaged_policies_give_a_plan_or_places(
        example in any::<prop::sample::Index>(),
        edits in prop::collection::vec(edit(), 1..6),
    ) {
        let original = EXAMPLES[example.index(EXAMPLES.len())];
        let text = edits.iter().fold(original.to_owned(), |text, edit| apply(&text, edit));
        let files = Files::new(&[("p.yaml", &text)]);
        assert_plan_or_places(&files, &text);
    }

    #[test]
    fn damaged_bytes_give_a_plan_or_places(
        example in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = EXAMPLES[example.index(EXAMPLES.len())].as_bytes().to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let files = Files::new(&[]);
        files.write("p.yaml", &bytes);
        assert_plan_or_places(&files, &String::from_utf8_lossy(&bytes));
    }
}
