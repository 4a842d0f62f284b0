//! How fast a message is scanned, beside serde_json into `IgnoredAny`, which checks the grammar,
//! keeps nothing, and leaves UTF-8 unchecked. One thread; the rounds of both alternate, so that
//! a noisy machine disturbs them alike; medians.
//!
//! `cargo bench --bench scan`

// A bench prints, and may panic.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use serde::de::IgnoredAny;
use weirgate::protocol::frame::{Bounds, Paths, scan};

const ROUNDS: usize = 41;
const BYTES_PER_ROUND: usize = 4 << 20;

fn main() {
    let bounds = Bounds::default();
    let paths = Paths::default();
    let mut ratios = Vec::new();
    for (kind, body) in bodies() {
        let body = Bytes::from(body);
        let calls = BYTES_PER_ROUND / body.len() + 1;
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for _ in 0..ROUNDS {
            ours.push(seconds(calls, || {
                black_box(scan(black_box(body.clone()), &bounds, &paths)).unwrap();
            }));
            theirs.push(seconds(calls, || {
                black_box(serde_json::from_slice::<IgnoredAny>(black_box(&body))).unwrap();
            }));
        }
        let (ours, theirs) = (median(ours), median(theirs));
        let rate = |seconds: f64| (calls * body.len()) as f64 / seconds / 1e6;
        println!(
            "{kind:10} {:7} bytes   ours {:6.0} MB/s {:7.0} ns   serde_json {:6.0} MB/s {:7.0} ns   ratio {:.2}",
            body.len(),
            rate(ours),
            ours / calls as f64 * 1e9,
            rate(theirs),
            theirs / calls as f64 * 1e9,
            theirs / ours,
        );
        ratios.push(theirs / ours);
    }
    println!(
        "mean ratio {:.2}",
        ratios.iter().sum::<f64>() / ratios.len() as f64
    );
}

/// The five kinds of bodies, each a `tools/call`.
fn bodies() -> [(&'static str, String); 5] {
    let small =
        r#"{"region":"us-west1","where":{"zone":"b"},"limit":25,"dry":false,"text":"hello"}"#;
    let base64 = "QUJDRUZHSElKS0xNTk9QUVJTVFVWV1hZWmFiY2RlZmdoaWprbG1ub3A/".repeat(800);
    let escaped = r#"fn main() {\n\tprintln!(\"hi \\n there\");\n}\n\u00e9t\u00e9 \/ "#.repeat(500);
    let non_ascii = "日本語のテキストと čeština, ελληνικά ".repeat(500);
    let rows: Vec<String> = (0..200)
        .map(|row| {
            format!(
                r#"{{"id":{row},"name":"row {row}","ok":{},"price":{}.5,"tags":["a","b"]}}"#,
                row % 3 > 0,
                row * 3
            )
        })
        .collect();
    [
        ("small", call(small)),
        ("base64", call(&format!(r#"{{"data":"{base64}"}}"#))),
        ("escaped", call(&format!(r#"{{"text":"{escaped}"}}"#))),
        ("non-ASCII", call(&format!(r#"{{"text":"{non_ascii}"}}"#))),
        ("rows", call(&format!(r#"{{"rows":[{}]}}"#, rows.join(",")))),
    ]
}

fn call(arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{{"name":"query","arguments":{arguments},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    )
}

fn seconds(calls: usize, mut call: impl FnMut()) -> f64 {
    let begin = Instant::now();
    for _ in 0..calls {
        call();
    }
    begin.elapsed().as_secs_f64()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
