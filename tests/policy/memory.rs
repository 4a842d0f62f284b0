//! `cache`, `catalog`, `pin` and `admin`: what may be written there, and what it comes to.

use std::time::Duration;

use weirgate::command::Form;
use weirgate::command::check::report;
use weirgate::policy::pin::OnChange;
use weirgate::policy::plan::{Cache, Catalog, LegacyCache, LegacyScope, Memory, Order};

use crate::merging::every_key;
use crate::{Files, assert_one, errors_of, warnings_of, with_route};

const LOCK: &str = r#"{"format": 1, "upstream": "u", "tools": {}}"#;

#[test]
fn every_key_reaches_the_plan() {
    let plan = every_key().load().unwrap().plan;
    let route = &plan.routes[0];
    let cache = Cache {
        enabled: true,
        max_ttl: Duration::from_secs(1800),
        stale_if_error: Duration::from_secs(300),
        refresh_before: Duration::from_secs(10),
        wait_timeout: Duration::from_secs(1),
        waiters_max: 0,
        legacy: Some(LegacyCache {
            ttl: Duration::from_secs(60),
            scope: LegacyScope::Public,
        }),
    };
    assert_eq!(route.cache, cache);
    let catalog = Catalog {
        enabled: true,
        required: true,
        order: Order::Name,
        max_age: Duration::from_secs(60),
        tools_max: 8,
        lists_max: 7,
        list_bytes_max: 1 << 20,
    };
    assert_eq!(route.catalog, catalog);
    let pin = route.pin.as_ref().unwrap();
    assert_eq!((pin.on_change, pin.lock.upstream()), (OnChange::Block, "u"));
}

#[test]
fn what_is_not_written_is_as_the_defaults_say_it() {
    let files = Files::new(&[(
        "p.yaml",
        "defaults:
  cache: { max_ttl: 5m, stale_if_error: 1m, legacy: { ttl: 1m, scope: session } }
  catalog: { order: name, max_age: 1m }
upstreams: { u: { url: http://127.0.0.1:3000/mcp } }
routes:
  - { name: r, path: /r, upstream: u, cache: { stale_if_error: off, legacy: off }, catalog: { max_age: 2m } }
  - { name: s, path: /s, upstream: u, cache: off }
  - { name: t, path: /t, upstream: u }
  - { name: p, path: /p, upstream: u, pass: true }
",
    )]);
    let plan = files.load().unwrap().plan;
    let [r, s, t] = [0, 1, 2].map(|route: usize| &plan.routes[route]);
    let of = |cache: &Cache| {
        let (max_ttl, stale) = (cache.max_ttl.as_secs(), cache.stale_if_error.as_secs());
        (cache.enabled, max_ttl, stale, cache.legacy.is_some())
    };
    assert_eq!(of(&r.cache), (true, 300, 0, false));
    assert_eq!(of(&s.cache), (false, 300, 60, true));
    assert_eq!(of(&t.cache), (true, 300, 60, true));
    let catalogs = [r, t].map(|route| (route.catalog.order, route.catalog.max_age.as_secs()));
    assert_eq!(catalogs, [(Order::Name, 120), (Order::Name, 60)]);
    assert_eq!(plan.memory, Memory::default());
    assert_eq!(plan.admin, Some("127.0.0.1:9901".parse().unwrap()));
}

#[test]
fn off_may_be_undone() {
    let text = "defaults: { cache: off }
upstreams: { u: { url: http://127.0.0.1:3000/mcp } }
routes:
  - { name: r, path: /r, upstream: u, cache: { max_ttl: 5m } }
  - { name: s, path: /s, upstream: u }
";
    let plan = Files::new(&[("p.yaml", text)]).load().unwrap().plan;
    let enabled: Vec<_> = plan
        .routes
        .iter()
        .map(|route| route.cache.enabled)
        .collect();
    assert_eq!(enabled, [true, false]);
}

#[test]
fn what_means_nothing_is_refused() {
    for (route, place, words) in [
        ("    cache: on\n", "5:12", "`cache` must be a mapping"),
        (
            "    cache: { ttl: 1h }\n",
            "5:14",
            "`ttl` is not a key of `cache`",
        ),
        ("    cache: { max_ttl: off }\n", "5:23", "`off`"),
        ("    cache: { max_ttl: 60 }\n", "5:23", "has no unit"),
        (
            "    cache: { max_ttl: 5m, refresh_before: 5m }\n",
            "5:43",
            "none is fresh for longer",
        ),
        (
            "    cache: { legacy: { ttl: 5m } }\n",
            "5:22",
            "`legacy` has no `scope`",
        ),
        (
            "    cache: { legacy: { scope: public } }\n",
            "5:22",
            "`legacy` has no `ttl`",
        ),
        (
            "    cache: { legacy: { ttl: 5m, scope: private } }\n",
            "5:40",
            "expected one of `session`, `public`",
        ),
        ("    catalog: on\n", "5:14", "`catalog` must be a mapping"),
        (
            "    catalog: { order: uri }\n",
            "5:23",
            "expected one of `upstream`, `name`",
        ),
        ("    catalog: { tools_max: 0 }\n", "5:27", "too small"),
        (
            "    protocol: { versions: [\"2025-11-25\"] }\n    catalog: { required: true }\n",
            "6:14",
            "nothing is enforced by `catalog`",
        ),
        (
            "    path: /x\n    pass: true\n    cache: off\n",
            "7:12",
            "nothing is enforced by `cache`",
        ),
        (
            "    path: /x\n    pass: true\n    catalog: { order: name }\n",
            "7:14",
            "nothing is enforced by `catalog`",
        ),
        ("    pin: u.lock.json\n", "5:10", "`pin` must be a mapping"),
        ("    pin: { on_change: hide }\n", "5:10", "names no file"),
    ] {
        assert_one(&with_route(route), place, words);
    }
}

#[test]
fn what_means_nothing_for_the_gateway_as_a_whole_is_refused() {
    for (top, words) in [
        ("cache: { entry_bytes_max: 65Mi }", "could never be reached"),
        (
            "cache: { bytes_max: 1Ki, entry_bytes_max: 2Ki }",
            "could never be reached",
        ),
        ("cache: off", "`cache` must be a mapping"),
        ("admin: { address: 9901 }", "is not an address to listen on"),
        ("admin: { address: 127.0.0.1:8080 }", "are the same address"),
        ("admin: { address: 0.0.0.0:9902 }", "are the same address"),
        ("defaults: { pin: { file: x } }", "not a key of `defaults`"),
    ] {
        let errors = errors_of(&format!("{top}\n{}", with_route("")));
        assert_eq!(errors.len(), 1, "{top}: {errors:?}");
        assert!(errors[0].contains(words), "{top}: {errors:?}");
    }
}

#[test]
fn a_smaller_memory_lowers_the_entry_that_nobody_wrote() {
    let text = format!("cache: {{ bytes_max: 64Ki }}\n{}", with_route(""));
    let plan = Files::new(&[("p.yaml", &text)]).load().unwrap().plan;
    assert_eq!(plan.memory.entry_bytes_max, 64 << 10);
}

#[test]
fn what_has_no_effect_is_told() {
    const LEGACY: &str = "    protocol: { versions: [\"2025-11-25\"] }\n";
    const MODERN: &str = "    protocol: { versions: [\"2026-07-28\"] }\n";
    for (versions, cache, words) in [
        (LEGACY, "{ max_ttl: 5m }", Some("only legacy versions")),
        (LEGACY, "off", None),
        (LEGACY, "{ legacy: { ttl: 5m, scope: public } }", None),
        (
            MODERN,
            "{ legacy: { ttl: 5m, scope: public } }",
            Some("no legacy version"),
        ),
        (MODERN, "{ legacy: off }", None),
        (
            "",
            "{ legacy: { ttl: 2h, scope: public } }",
            Some("beyond `max_ttl`"),
        ),
        ("", "{ stale_if_error: 1h }", None),
    ] {
        let warnings = warnings_of(&with_route(&format!("{versions}    cache: {cache}\n")));
        assert_eq!(
            warnings.len(),
            usize::from(words.is_some()),
            "{cache}: {warnings:?}"
        );
        if let Some(words) = words {
            assert!(warnings[0].contains(words), "{cache}: {warnings:?}");
        }
    }
}

#[test]
fn an_admin_listener_for_all_is_warned_of() {
    for (address, warns) in [
        ("0.0.0.0:9901", true),
        ("\"[::]:9901\"", true),
        ("10.0.0.7:9901", true),
        ("127.0.0.5:9901", false),
        ("\"[::1]:9901\"", false),
        ("off", false),
    ] {
        let text = format!("admin: {{ address: {address} }}\n{}", with_route(""));
        let warnings = warnings_of(&text);
        assert_eq!(
            warnings.len(),
            usize::from(warns),
            "{address}: {warnings:?}"
        );
    }
}

#[test]
fn a_lock_file_is_read_with_the_policy() {
    let text = with_route("    pin: { file: locks/u.json }\n");
    let files = Files::new(&[("p.yaml", &text)]);
    let told = files.told();
    assert!(told.starts_with("p.yaml:5:18: the file "), "{told}");
    assert!(told.contains("taken relative to the policy file"), "{told}");

    for (lock, words) in [
        ("", "it is empty"),
        ("not json", "it is no JSON"),
        (r#"{"format": 2, "upstream": "u", "tools": {}}"#, "format"),
        (
            r#"{"format": 1, "upstream": "u", "tools": {"t": "md5:0"}}"#,
            "the digest of `t`",
        ),
    ] {
        files.write("locks/u.json", lock.as_bytes());
        let told = files.told();
        assert!(told.starts_with("p.yaml:5:18: "), "{told}");
        assert!(told.contains("is not a lock file"), "{told}");
        assert!(told.contains(words), "{lock}: {told}");
        assert!(told.contains("weirgate pin"), "{told}");
    }

    files.write("locks/u.json", LOCK.as_bytes());
    let plan = files.load().unwrap().plan;
    let pin = plan.routes[0].pin.as_ref().unwrap();
    assert_eq!(pin.file, files.path("locks/u.json"));
    assert_eq!(pin.on_change, OnChange::Warn);
}

#[test]
fn what_is_not_at_its_default_is_shown() {
    let text = format!(
        "admin: {{ address: off }}\ncache: {{ entries_max: 5 }}\n{}",
        with_route(
            "    cache: off\n    catalog: { order: name }\n    pin: { file: u.json, on_change: hide }\n"
        )
    );
    let files = Files::new(&[("p.yaml", &text), ("u.json", LOCK)]);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = report(&[files.path("p.yaml")], Form::default(), &mut out, &mut err).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert_eq!(code, 0, "{}", String::from_utf8_lossy(&err));
    let words: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    for row in [
        "gateway admin.address off (default 127.0.0.1:9901)",
        "gateway cache.entries_max 5 (default 10000)",
        "route r cache off (default on)",
        "route r catalog.order name (default upstream)",
        "route r pin.on_change hide (default warn)",
    ] {
        let row: Vec<_> = row.split(' ').collect();
        assert!(words.contains(&row), "{row:?}\n{out}");
    }
}
