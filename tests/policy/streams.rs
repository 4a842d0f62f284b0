//! `streams`, `deadline` and `shutdown`: what may be written there, and what it comes to.

use std::time::Duration;

use crate::{Files, assert_one, warnings_of, with_route};

#[test]
fn deadlines_of_tools_are_joined_tool_by_tool() {
    let files = Files::new(&[(
        "p.yaml",
        "defaults:
  streams: { keep_alive: 15s }
  deadline: { call: 30s, tools: { a: 1m, b: 1m } }
upstreams: { u: { url: http://127.0.0.1:3000/mcp } }
routes:
  - { name: r, path: /r, upstream: u, deadline: { tools: { b: 2m, c: off } } }
  - { name: s, path: /s, upstream: u, deadline: { call: off }, streams: { keep_alive: off } }
",
    )]);
    let plan = files.load().unwrap().plan;
    let of = |route: usize, tool| {
        let found = plan.routes[route].deadline.of(Some(tool));
        found.map(|(_, max)| max.as_secs())
    };
    let found = ["a", "b", "c", "d"].map(|tool| (of(0, tool), of(1, tool)));
    let expected = [
        (Some(60), Some(60)),
        (Some(120), Some(60)),
        (None, None),
        (Some(30), None),
    ];
    assert_eq!(found, expected);
    let keep_alive = [0, 1].map(|route: usize| plan.routes[route].streams.keep_alive);
    assert_eq!(keep_alive, [Some(Duration::from_secs(15)), None]);
}

#[test]
fn what_is_no_time_and_no_tool_is_refused() {
    for (route, place, words) in [
        (
            "    deadline: 30s\n",
            "5:15",
            "`deadline` must be a mapping",
        ),
        ("    deadline: { call: 30 }\n", "5:23", "has no unit"),
        ("    deadline: { call: never }\n", "5:23", "`never`"),
        (
            "    deadline: { tools: 30s }\n",
            "5:24",
            "`tools` must be a mapping",
        ),
        (
            "    deadline: { tools: [ a ] }\n",
            "5:24",
            "`tools` must be a mapping",
        ),
        ("    deadline: { tools: { a: 0s } }\n", "5:29", "too small"),
        (
            "    deadline: { tools: { on: 1s } }\n",
            "5:26",
            "without quotes is a boolean",
        ),
        (
            "    deadline: { tool: { a: 1s } }\n",
            "5:17",
            "is not a key of `deadline`",
        ),
        (
            "    path: /x\n    pass: true\n    deadline: { call: 1s }\n",
            "7:15",
            "nothing is enforced by `deadline`",
        ),
        ("    streams: { keep_alive: on }\n", "5:28", "`on`"),
        ("    streams: { idle_timeout: off }\n", "5:30", "`off`"),
    ] {
        assert_one(&with_route(route), place, words);
    }
    let shutdown = format!("shutdown: {{ streams: stop }}\n{}", with_route(""));
    assert_one(&shutdown, "1:22", "expected one of `end`, `break`");
}

#[test]
fn a_comment_that_would_come_too_late_is_told() {
    for (streams, warns) in [
        ("{ keep_alive: 1m, idle_timeout: 30s }", true),
        ("{ keep_alive: 1m, idle_timeout: 1m }", true),
        ("{ keep_alive: 15s, idle_timeout: 30s }", false),
        ("{ idle_timeout: 30s }", false),
    ] {
        let warnings = warnings_of(&with_route(&format!("    streams: {streams}\n")));
        assert_eq!(
            warnings.len(),
            usize::from(warns),
            "{streams}: {warnings:?}"
        );
    }
}
