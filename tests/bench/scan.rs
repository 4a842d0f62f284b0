fn main() {
    use std::time::Instant;
    let rows = (0..200)
        .map(|i| {
            format!(
                r#"{{"id":{i},"name":"row {i}","ok":true,"price":{}.5,"tags":["a","b"]}}"#,
                i * 3
            )
        })
        .collect::<Vec<_>>()
        .join(",");
    let call = |args: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{{"name":"query","arguments":{args},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
        )
    };
    let bodies = [
        (
            "small",
            call(
                r#"{"region":"us-west1","where":{"zone":"b"},"limit":25,"dry":false,"text":"hello there"}"#,
            ),
        ),
        (
            "base64",
            call(&format!(
                r#"{{"data":"{}"}}"#,
                "QUJDRUZHSElKS0xNTk9QUVJTVFVWV1hZWmFiY2RlZmdoaWprbG1ub3A/".repeat(800)
            )),
        ),
        (
            "escaped",
            call(&format!(
                r#"{{"text":"{}"}}"#,
                r#"fn main() {\n\tprintln!(\"hi \\n there\");\n}\n\u00e9t\u00e9 \/ "#.repeat(500)
            )),
        ),
        (
            "non-ascii",
            call(&format!(
                r#"{{"text":"{}"}}"#,
                "日本語のテキストと čeština, ελληνικά ".repeat(500)
            )),
        ),
        ("rows", call(&format!(r#"{{"rows":[{rows}]}}"#))),
    ];
    let mut mean = 0.0;
    for (name, body) in &bodies {
        let bytes = body.as_bytes();
        let n = 20_000_000 / bytes.len() + 1;
        let (mut a, mut b) = (vec![], vec![]);
        for _ in 0..15 {
            let t = Instant::now();
            for _ in 0..n {
                let mut lexer = weirgate::protocol::lexer::Lexer::new(64);
                let mut tokens = lexer.feed(std::hint::black_box(bytes));
                while let Some(t) = tokens.next().unwrap() {
                    if tokens.depth() <= 2
                        && t.kind == weirgate::protocol::lexer::TokenKind::ObjectStart
                    {
                        tokens.enter();
                    }
                }
                std::hint::black_box(lexer.finish().unwrap());
            }
            a.push(t.elapsed().as_secs_f64());
            let t = Instant::now();
            for _ in 0..n {
                std::hint::black_box(
                    serde_json::from_slice::<serde::de::IgnoredAny>(std::hint::black_box(bytes))
                        .unwrap(),
                );
            }
            b.push(t.elapsed().as_secs_f64());
        }
        a.sort_by(f64::total_cmp);
        b.sort_by(f64::total_cmp);
        let mb = |t: f64| (n * bytes.len()) as f64 / t / 1e6;
        println!(
            "{name:10} {:7} B  ours {:8.0} MB/s {:7.0} ns  serde {:8.0} MB/s  ratio {:.2}",
            bytes.len(),
            mb(a[7]),
            a[7] * 1e9 / n as f64,
            mb(b[7]),
            b[7] / a[7]
        );
        mean += b[7] / a[7] / 5.0;
    }
    println!("mean {mean:.2}");
}
