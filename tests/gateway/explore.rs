//! Exploration.
use std::time::Duration;
use serde_json::json;
use crate::harness::*;

#[test]
fn x_http10_upstream() {
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let upstream = Upstream::with(move |_| Reply::raw(format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())));
    let site = Site::before(upstream, |p| p);
    let mut client = site.gateway.connect();
    let a = client.exchange(&Request::call("echo"));
    println!("{a:?}\nclosed {}", client.is_closed());
    panic!();
}

#[test]
fn x_slow_reader() {
    let site = Site::before(Upstream::with(|r| {
        let n = r.json()["params"]["arguments"]["n"].as_u64().unwrap() as usize;
        Reply::json(200, "x".repeat(n))
    }), |p| p.listen("header_read_timeout", "300ms"));
    let cut: Vec<String> = std::thread::scope(|s| {
        let all: Vec<_> = (1..=64usize).map(|k| { let site=&site.gateway; let n = k * 96 * 1024; let address = site.address; s.spawn(move || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.set_recv_buffer_size(8192).unwrap();
            socket.connect(&address.into()).unwrap();
            let mut client = Client { wire: wire::Wire::new(socket.into(), Duration::from_secs(10)) };
            client.send(&Request::modern("tools/call", json!({"name":"big","arguments":{"n":n}})));
            std::thread::sleep(Duration::from_millis(1000));
            match client.try_read() { Ok(a) if a.body.len()==n => String::new(), Ok(a) => format!("{n}: short {}", a.body.len()), Err(e) => format!("{n}: {e:?}") }
        })}).collect();
        all.into_iter().map(|t| t.join().unwrap()).filter(|t| !t.is_empty()).collect()
    });
    println!("{cut:#?}");
    println!("{:#?}", site.gateway.wait_for_records(64).len());
    println!("{:#?}", site.gateway.wait_for_connections(0));
    panic!();
}

#[test]
fn x_event_then_abort() {
    for reset in [false, true] { for framed in [false,true] {
    let mut lost = 0;
    for _ in 0..20 {
    let upstream = Upstream::with(move |_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
        let bytes = if framed { format!("{head}Content-Length: 100\r\n\r\ndata: 1\n\n") } else { format!("{head}Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n") };
        if reset { Reply::Steps(vec![Play::Send(bytes.into()), Play::Pause(Duration::from_millis(0)), Play::Reset]) } else { Reply::raw_then_close(bytes) }
    });
    let site = Site::before(upstream, |p| p);
    let mut client = site.gateway.connect();
    client.send(&Request::call("echo"));
    let mut seen = Vec::new();
    match client.wire.head() { Ok(head) => {
        let mut r = wire::BodyReader::new(head.response_framing("POST").unwrap());
        while let Ok(Some(p)) = r.next(&mut client.wire) { seen.extend(p); }
    } Err(e) => println!("no head {e:?}") }
    if seen != b"data: 1\n\n" { lost += 1; }
    site.gateway.wait_for_records(1);
    for l in site.gateway.lines() { if l.contains("\"connection\"") { println!("{l}"); } }
    }
    println!("reset {reset} framed {framed} lost {lost}/20");
    }}
    panic!();
}

#[test]
fn x_head() {
    let site = Site::new();
    let mut client = site.gateway.connect();
    client.send(&Request::new("HEAD", "/mcp"));
    println!("{:?}", client.read_head().0);
    println!("{}", site.records(1)[0]);
    site.works("head", &mut client);
    panic!();
}

#[test]
fn x_early_answer_unread_upload() {
    use std::io::{Read,Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        while let Ok((mut s,_)) = listener.accept() {
            let mut buf=[0;1024]; let _ = s.read(&mut buf);
            let _ = s.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
            kept.push(s);
        }
    });
    let gateway = Gateway::start(&Policy::to_url(&format!("http://{address}/mcp")).bound("body_bytes_max", "32Mi"));
    let big = Request::modern("tools/call", json!({"name":"big","arguments":{"x": "y".repeat(16<<20)}}));
    let t = std::time::Instant::now();
    println!("{:?} {:?}", gateway.ask(&big), t.elapsed());
    let t = std::time::Instant::now();
    println!("{:?} {:?}", gateway.ask(&Request::call("small")), t.elapsed());
    panic!();
}

#[test]
fn x_two_answers() {
    let one = r#"{"jsonrpc":"2.0","id":1,"result":{"n":1}}"#;
    let body = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{one}", one.len());
    let twice = format!("{body}{}", body.replace(":1}", ":2}"));
    let site = Site::before(Upstream::with(move |_| Reply::raw(twice.clone())), |p| p);
    let mut client = site.gateway.connect();
    for _ in 0..5 { println!("{:?}", client.exchange(&Request::call("echo")).text()); }
    println!("{}", site.upstream.log().connections.len());
    panic!();
}

#[test]
fn x_h2c() {
    let site = Site::new();
    let mut client = site.gateway.connect();
    for _ in 0..3 {
    let r = Request::call("echo").line("Connection", "Upgrade, HTTP2-Settings").line("Upgrade","h2c").line("HTTP2-Settings","AAMAAABkAARAAAAAAAIAAAAA");
    let a = client.exchange(&r);
    println!("{a:?}\n{:?}", site.upstream.last());
    }
    println!("{}", client.is_closed());
    panic!();
}

#[test]
fn x_http10_client() {
    let site = Site::before(Upstream::with(|r| match r.json()["params"]["name"].as_str() { Some("stream") => Reply::sse("data: 1\n\n"), _ => Reply::usual(r)}), |p| p);
    for tool in ["echo","stream"] { for ka in [false,true] {
        let mut client = site.gateway.connect();
        let mut r = Request::call(tool);
        if ka { r = r.line("Connection","keep-alive"); }
        let text = String::from_utf8(r.bytes()).unwrap().replace("HTTP/1.1\r\n","HTTP/1.0\r\n");
        client.send_bytes(text.as_bytes());
        println!("{:?}\nclosed {}", client.try_read(), client.is_closed());
        println!("{}", site.records(1)[0]);
    }}
    panic!();
}

#[test]
fn x_long_query() {
    let up = Upstream::start();
    let site = Site::before(up, |p| p.listen("header_bytes_max","256Ki"));
    for n in [65000, 65500, 65520, 65529] {
    let r = Request::call("echo").target(&format!("/mcp?{}", "y".repeat(n)));
    let a = site.gateway.ask(&r);
    println!("{n} {} {}", a.status, site.upstream.log().requests.last().map_or(0, |r| r.target.len()));
    }
    let up = Upstream::start(); let url = format!("http://{}/mcp/very/long/path", up.address);
    let site = Site::before(up, |p| p.listen("header_bytes_max","256Ki").upstream("url", url));
    for n in [65000, 65500, 65520, 65529] {
    let r = Request::call("echo").target(&format!("/mcp?{}", "y".repeat(n)));
    let a = site.gateway.ask(&r);
    println!("{n} {} {}", a.status, site.upstream.log().requests.last().map_or(0, |r| r.target.len()));
    }
    panic!();
}

#[test]
fn x_304_204() {
    for head in ["HTTP/1.1 304 Not Modified\r\nContent-Length: 50\r\nETag: \"a\"\r\n\r\n", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}"] {
        let site = Site::before(Upstream::with(move |_| Reply::raw(head)), |p| p);
        let mut client = site.gateway.connect();
        for _ in 0..2 { println!("{head:?} {:?}", client.exchange(&Request::call("echo"))); }
        println!("{}", site.records(2)[0]);
    }
    panic!();
}

#[test]
fn x_absolute() {
    let site = Site::new();
    let a = site.gateway.address;
    for (t,h) in [(format!("http://{a}/mcp"), a.to_string()), (format!("http://{a}/mcp?x=1"), a.to_string()), ("http://127.0.0.1/mcp".into(), "127.0.0.1".into()), ("http://127.0.0.1:80/mcp".into(), "127.0.0.1".into()), ("HTTP://LOCALHOST/mcp".into(), "localhost".into()), ("http://localhost".into(), "localhost".into()), ("http://user@localhost/mcp".into(), "localhost".into())] {
        let r = site.gateway.ask(&Request::call("echo").target(&t).header("Host",&h));
        println!("{t} {h} {} {:?}", r.status, site.upstream.log().requests.last().map(|r| r.target.clone()));
    }
    panic!();
}

#[test]
fn x_options_body() {
    let site = Site::new();
    let mut client = site.gateway.connect();
    for r in [Request::new("OPTIONS","/mcp"), Request::new("OPTIONS","/mcp").body("hello").line("Origin","http://localhost:3000"), Request::new("OPTIONS","*"), Request::new("DELETE","/mcp").header("MCP-Protocol-Version", LEGACY).body("hello"), Request::get().body("x").chunked(1)] {
        println!("{:?}", client.exchange(&r));
    }
    println!("{:?}", site.upstream.log().requests);
    site.works("x", &mut client);
    for r in site.gateway.records() { println!("{r}"); }
    panic!();
}

#[test]
fn x_trailers() {
    let site = Site::before(Upstream::with(|_| Reply::raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-T: 1\r\n\r\n")), |p| p);
    let mut client = site.gateway.connect();
    for _ in 0..2 { println!("{:?}", client.exchange(&Request::call("echo").line("TE","trailers"))); }
    println!("{}", site.upstream.log().connections.len());
    let mut r = Request::call("echo").chunked(10).bytes(); r.truncate(r.len()-2); r.extend(b"Mcp-Name: evil\r\nX-T: 1\r\n\r\n");
    client.send_bytes(&r);
    println!("{:?}", client.read());
    println!("{:?}", site.upstream.last());
    panic!();
}
