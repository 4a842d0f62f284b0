//! Several files, directories, defaults, and the addresses of the command line.

use std::net::SocketAddr;
use std::time::Duration;

use weirgate::policy::file::{Addresses, keys, load};
use weirgate::policy::plan::{
    Hosts, Http, LegacyHeaders, LegacyRefusals, Missing, Origins, Plan, Route, StreamEnd, Streams,
};
use weirgate::policy::tls::Demand;
use weirgate::protocol::version::{Version, Versions};

use crate::certificates::Authority;
use crate::{Files, short};

const UPSTREAM: &str = "upstreams: { u: { url: http://127.0.0.1:3000/mcp } }\n";

/// Every key with a value that is not its default.
pub(crate) const EVERY_KEY: &str = r#"
listen: { address: "[::1]:8081", header_count_max: 50, header_bytes_max: 16Ki, header_read_timeout: 5s, handshake_timeout: 6s, write_idle_timeout: 7s, http2_streams_max: 8, connections_max: 9, connections_per_source_max: 7, requests_max: 6, trusted_proxies: [ 10.0.0.0/8, "::1" ], forwarded: forwarded, tls: { cert: tls.crt, key: tls.key, client_ca: ca.crt, client_certificate: optional } }
status: { address: 127.0.0.1:0 }
admin: { address: 127.0.0.2:0 }
log: { access: off, file: access.log, backlog_bytes_max: 2Mi }
cache: { bytes_max: 1Mi, entries_max: 9, entry_bytes_max: 2Ki }
shutdown: { notice: 1s, timeout: 2s, streams: end }
upstreams:
  u:
    url: https://127.0.0.1:3000/mcp?x=1
    connect_timeout: 250ms
    response_header_timeout: 1m
    response_idle_timeout: 2m
    idle_timeout: 1s
    connection_age_max: 90s
    idle_connections_max: 0
    http: 2
    http2_streams_max: 7
    http2_ping_interval: 5s
    forwarded: both
    tls: { ca: ca.crt, server_name: Weather.example, cert: tls.crt, key: tls.key }
routes:
  - name: r
    path: /x/
    upstream: u
    hosts: [ A.example, "[::1]" ]
    origins: [ https://app.example ]
    cors: { headers: [ X-Tenant ], max_age: 5m, credentials: true }
    protocol:
      versions: [ "2026-07-28", "2025-06-18" ]
      routing_headers: { missing: mirror, legacy: refuse }
      legacy_refusals: status
    bounds:
      body_bytes_max: 1Mi
      stream_bytes_max: 32Mi
      buffer_bytes: 4Ki
      body_idle_timeout: 1s
      drain_bytes_max: 0
      drain_timeout: 2s
      depth_max: 32
      keys_max: 64
      method_bytes_max: 64
      name_bytes_max: 1Ki
      id_bytes_max: 64
      sessions_max: 5
      session_idle_timeout: 1h
    streams: { keep_alive: 15s, idle_timeout: 2h }
    deadline: { call: 30s, tools: { slow_report: 10m, "on": off } }
    cache: { max_ttl: 30m, stale_if_error: 5m, refresh_before: 10s, wait_timeout: 1s, waiters_max: 0, legacy: { ttl: 1m, scope: public } }
    catalog: { required: true, order: name, max_age: 1m, tools_max: 8, lists_max: 7, list_bytes_max: 1Mi }
    pin: { file: u.lock.json, on_change: block }
  - { name: all, pass: true, path: /all/*, upstream: u }
"#;

/// A policy with all of them, and the files that it names.
pub(crate) fn every_key() -> Files {
    let authority = Authority::new("everybody");
    let own = authority.issue(&["mcp.example.com"]);
    Files::new(&[
        ("p.yaml", EVERY_KEY),
        ("tls.crt", &own.cert),
        ("tls.key", &own.key),
        ("ca.crt", &authority.pem()),
        (
            "u.lock.json",
            "{\"format\": 1, \"upstream\": \"u\", \"tools\": {}}",
        ),
    ])
}

#[test]
fn every_key_reaches_the_plan() {
    for (key, _) in keys()
        .iter()
        .filter(|(key, _)| !key.starts_with("defaults"))
    {
        let last = key.rsplit('.').next().unwrap_or(key);
        assert!(EVERY_KEY.contains(&format!("{}:", last)), "{key}");
    }
    let plan = every_key().load().unwrap().plan;
    the_gateway_as_a_whole(&plan);
    let route = &plan.routes[0];
    the_route(route);
    let upstream = &route.upstream;
    assert_eq!(
        (upstream.path.as_str(), upstream.query.as_deref()),
        ("/mcp", Some("x=1"))
    );
    assert_eq!(upstream.connect_timeout, Duration::from_millis(250));
    assert_eq!(upstream.response_header_timeout, Duration::from_secs(60));
    assert_eq!(
        (upstream.idle_timeout, upstream.idle_connections_max),
        (Duration::from_secs(1), 0)
    );
    assert_eq!(upstream.connection_age_max, Duration::from_secs(90));
    assert_eq!((upstream.http, upstream.http2_streams_max), (Http::V2, 7));
    assert_eq!(upstream.http2_ping_interval, Duration::from_secs(5));
    let tls = upstream.tls.as_ref().unwrap();
    assert_eq!(tls.server_name.to_str(), "weather.example");
    assert!(tls.authorities.is_some() && tls.identity.is_some());
}

fn the_gateway_as_a_whole(plan: &Plan) {
    assert_eq!(plan.listen.address, "[::1]:8081".parse().unwrap());
    assert_eq!(
        (plan.listen.header_count_max, plan.listen.header_bytes_max),
        (50, 16 << 10)
    );
    assert_eq!(plan.listen.header_read_timeout, Duration::from_secs(5));
    let listen = &plan.listen;
    assert_eq!(
        (listen.handshake_timeout, listen.write_idle_timeout),
        (Duration::from_secs(6), Duration::from_secs(7))
    );
    assert_eq!(
        (
            listen.http2_streams_max,
            listen.connections_max,
            listen.connections_per_source_max,
            listen.requests_max
        ),
        (8, 9, 7, 6)
    );
    assert_eq!(
        (plan.shutdown.notice, plan.shutdown.timeout),
        (Duration::from_secs(1), Duration::from_secs(2))
    );
    assert_eq!(plan.status.port(), 0);
    assert_eq!(plan.admin, Some("127.0.0.2:0".parse().unwrap()));
    assert_eq!(
        format!("{:?}", plan.memory),
        "Memory { bytes_max: 1048576, entries_max: 9, entry_bytes_max: 2048 }"
    );
    let log = format!("{:?}", plan.log);
    assert_eq!(
        log,
        r#"Log { access: Off, file: Some("access.log"), backlog_bytes_max: 2097152 }"#
    );
    let clients = listen.tls.as_ref().unwrap().clients.as_ref().unwrap();
    assert_eq!(clients.demand, Demand::Optional);
}

fn the_route(route: &Route) {
    assert_eq!(route.path, "/x");
    assert_eq!(
        route.hosts,
        Hosts::Named(vec!["a.example".into(), "::1".into()])
    );
    assert_eq!(
        route.origins,
        Origins::Named(vec!["https://app.example".into()])
    );
    assert_eq!(
        route.protocol.versions,
        Versions::of(&[Version::V2026_07_28, Version::V2025_06_18])
    );
    assert_eq!(
        (route.protocol.missing, route.protocol.legacy),
        (Missing::Mirror, LegacyHeaders::Refuse)
    );
    assert_eq!(route.protocol.legacy_refusals, LegacyRefusals::Status);
    let bounds = format!("{:?}", route.bounds);
    assert_eq!(
        bounds,
        "Bounds { body_bytes_max: 1048576, stream_bytes_max: 33554432, buffer_bytes: 4096, body_idle_timeout: 1s, \
         drain_bytes_max: 0, drain_timeout: 2s, message: Bounds { depth_max: 32, \
         keys_max: 64, method_bytes_max: 64, name_bytes_max: 1024, id_bytes_max: 64 }, \
         sessions_max: 5, session_idle_timeout: 3600s }"
    );
}

#[test]
fn a_version_of_http_is_written_with_or_without_quotes() {
    for (written, http) in [
        ("1.1", Http::V1),
        ("\"1.1\"", Http::V1),
        ("2", Http::V2),
        ("\"2\"", Http::V2),
        ("auto", Http::Auto),
    ] {
        let text = format!(
            "upstreams: {{ u: {{ url: http://127.0.0.1:3000/mcp, http: {written} }} }}\n\
             routes: [ {{ name: r, upstream: u }} ]\n"
        );
        let plan = Files::new(&[("p.yaml", &text)]).load().unwrap().plan;
        assert_eq!(plan.routes[0].upstream.http, http, "{written}");
    }
}

#[test]
fn every_key_of_an_answer_reaches_the_plan() {
    let plan = every_key().load().unwrap().plan;
    let route = &plan.routes[0];
    let response_idle_timeout = route.upstream.response_idle_timeout;
    assert_eq!(response_idle_timeout, Duration::from_secs(120));
    assert_eq!(plan.shutdown.streams, StreamEnd::End);
    let streams = Streams {
        keep_alive: Some(Duration::from_secs(15)),
        idle_timeout: Duration::from_secs(7200),
    };
    assert_eq!(route.streams, streams);
    for (tool, limit, seconds) in [
        (None, "deadline.call", 30),
        (Some("other"), "deadline.call", 30),
        (Some("slow_report"), "deadline.tools", 600),
    ] {
        let expected = Some((limit, Duration::from_secs(seconds)));
        assert_eq!(route.deadline.of(tool), expected, "{tool:?}");
    }
    assert_eq!(route.deadline.of(Some("on")), None);
}

#[test]
fn defaults_hold_key_by_key_whatever_the_order_of_the_files() {
    // The route file comes first by name, and builds on the defaults of the other all the same.
    let files = Files::new(&[
        (
            "a.yaml",
            "routes:\n  - { name: r, upstream: u, bounds: { depth_max: 32 } }\n  \
             - { name: s, upstream: u, path: /s, hosts: any, protocol: { routing_headers: { legacy: drop } } }\n",
        ),
        (
            "z.yaml",
            "upstreams: { u: { url: http://127.0.0.1:3000/mcp, connect_timeout: 1s } }\n\
             defaults:\n  bounds: { body_bytes_max: 2Mi, depth_max: 16 }\n  hosts: [ h.example ]\n  \
             origins: none\n  protocol: { routing_headers: { missing: mirror } }\n  \
             upstream: { connect_timeout: 2s, idle_timeout: 1s }\n",
        ),
    ]);
    let plan = files.load().unwrap().plan;
    let (r, s) = (&plan.routes[0], &plan.routes[1]);
    assert_eq!(
        (
            r.bounds.message.depth_max,
            r.bounds.body_bytes_max,
            r.bounds.message.keys_max
        ),
        (32, 2 << 20, 256)
    );
    assert_eq!(s.bounds.message.depth_max, 16);
    assert_eq!(
        (&r.hosts, &s.hosts),
        (&Hosts::Named(vec!["h.example".into()]), &Hosts::Any)
    );
    assert_eq!(r.origins, Origins::None);
    assert_eq!(
        (s.protocol.missing, s.protocol.legacy),
        (Missing::Mirror, LegacyHeaders::Drop)
    );
    assert_eq!(r.upstream.connect_timeout, Duration::from_secs(1));
    assert_eq!(r.upstream.idle_timeout, Duration::from_secs(1));
}

#[test]
fn routes_keep_the_order_of_the_files() {
    let route =
        |name: &str| format!("routes: [ {{ name: {name}, path: /{name}, upstream: u }} ]\n");
    let files = Files::new(&[
        ("20.yaml", &route("second")),
        ("10.yml", &route("first")),
        ("30.YAML", &format!("{UPSTREAM}{}", route("third"))),
        ("40.yaml", "log: { access: json }\n"),
    ]);
    let plan = files.load().unwrap().plan;
    let names: Vec<_> = plan
        .routes
        .iter()
        .map(|route| route.name.as_str())
        .collect();
    assert_eq!(names, ["first", "second", "third"]);
    // And that of the paths, where several are named.
    let paths = ["30.YAML", "20.yaml", "10.yml"].map(|name| files.path(name));
    let plan = files.load_paths(&paths).unwrap().plan;
    let names: Vec<_> = plan
        .routes
        .iter()
        .map(|route| route.name.as_str())
        .collect();
    assert_eq!(names, ["third", "second", "first"]);
}

#[cfg(unix)]
#[test]
fn a_mounted_config_map_is_read_through_its_links() {
    use std::os::unix::fs::symlink;
    let text = format!("{UPSTREAM}routes: [ {{ name: r, upstream: u }} ]\n");
    let files = Files::new(&[
        ("..2026_01_01/p.yaml", &text),
        ("notes.txt", "no: policy: at: all"),
    ]);
    symlink("..2026_01_01", files.path("..data")).unwrap();
    symlink("..data/p.yaml", files.path("p.yaml")).unwrap();
    let policy = files.load().unwrap();
    assert_eq!(policy.plan.routes.len(), 1);
    assert!(policy.warnings.is_empty());
    // Named twice, it is still one file.
    let directory = files.path("p.yaml").parent().unwrap().to_owned();
    let paths = [directory.clone(), directory, files.path("p.yaml")];
    assert_eq!(files.load_paths(&paths).unwrap().plan.routes.len(), 1);
    // A link that leads nowhere is not passed over.
    symlink("nowhere", files.path("q.yaml")).unwrap();
    assert!(files.told().contains("q.yaml: the file cannot be read"));
}

#[test]
fn directories_are_not_descended_into_and_it_is_said() {
    let text = format!("{UPSTREAM}routes: [ {{ name: r, upstream: u }} ]\n");
    let files = Files::new(&[("p.yaml", &text), ("team/q.yaml", "routes: broken")]);
    let policy = files.load().unwrap();
    assert!(short(&policy.warnings[0]).contains("team this directory is not read"));
    let empty = Files::new(&[("README.md", "")]);
    assert!(empty.told().contains("no file that ends in `.yaml`"));
}

#[test]
fn an_unreadable_file_does_not_hide_the_flaws_of_the_others() {
    let files = Files::new(&[
        (
            "a.yaml",
            "routes: [ { name: r, upstream: elsewhere, bounds: { depth_max: 1000 } } ]\n",
        ),
        ("c.yaml", "upstreams: { elsewhere: { url: : } }\n"),
    ]);
    files.write("b.yaml", b"routes:\n  - name: \xff\n");
    files.write("d.yaml", &vec![b'#'; 2 << 20]);
    let told = files.told();
    assert!(
        told.contains("d.yaml: the file is larger than 1Mi"),
        "{told}"
    );
    assert!(told.contains("a.yaml:1:64: `1000` is too large"), "{told}");
    assert!(
        told.contains("b.yaml:2:11: the file is not UTF-8"),
        "{told}"
    );
    assert!(told.contains("c.yaml:1:"), "{told}");
    // The upstream may stand in the file that could not be read.
    assert!(!told.contains("no upstream"), "{told}");
}

#[test]
fn the_command_line_wins_over_the_files_and_decides_what_loopback_means() {
    let text = format!(
        "listen: {{ address: 127.0.0.1:1 }}\n{UPSTREAM}routes: [ {{ name: r, upstream: u }} ]\n"
    );
    let files = Files::new(&[("p.yaml", &text)]);
    let listen: SocketAddr = "0.0.0.0:8081".parse().unwrap();
    let status: SocketAddr = "0.0.0.0:9000".parse().unwrap();
    let admin: SocketAddr = "127.0.0.1:9001".parse().unwrap();
    let addresses = Addresses {
        listen: Some(listen),
        status: Some(status),
        admin: Some(admin),
    };
    let policy = load(&[files.path("p.yaml")], addresses).unwrap();
    let plan = &policy.plan;
    assert_eq!(
        (plan.listen.address, plan.status, plan.admin),
        (listen, status, Some(admin))
    );
    assert_eq!(policy.plan.routes[0].hosts, Hosts::Any);
    assert_eq!(policy.plan.routes[0].origins, Origins::None);
    assert!(policy.warnings[0].cause.contains("answers to any `Host`"));

    let clash = Addresses {
        listen: Some(listen),
        status: Some(listen),
        admin: None,
    };
    let told = load(&[files.path("p.yaml")], clash)
        .unwrap_err()
        .to_string();
    assert!(told.starts_with("--status: `listen`"), "{told}");
}

#[test]
fn one_upstream_needs_no_file() {
    let policy = Plan::for_single_upstream("http://localhost:3000", Addresses::default()).unwrap();
    assert_eq!(policy.plan.routes[0].upstream.name, "default");
    assert!(policy.warnings[0].cause.contains("has no path"));
    let told = Plan::for_single_upstream("http://localhost:8080/mcp", Addresses::default());
    assert!(
        told.unwrap_err()
            .to_string()
            .contains("is the gateway itself")
    );
}
