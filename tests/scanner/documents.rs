//! Writes documents from a tape of random bytes: messages that are right, nearly right and
//! wrong, and things that are hardly JSON. An exhausted tape always picks the first choice, so
//! that a shorter tape makes a simpler document.

/// The random bytes, read from the front.
pub(crate) struct Tape<'a>(pub(crate) &'a [u8]);

impl Tape<'_> {
    /// A number below `count`.
    pub(crate) fn pick(&mut self, count: usize) -> usize {
        let Some((&byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        byte as usize % count
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.pick(count) == count - 1
    }

    /// Writes one of the choices.
    fn write(&mut self, out: &mut Vec<u8>, choices: &[&str]) {
        let choice = choices[self.pick(choices.len())];
        out.extend_from_slice(choice.as_bytes());
    }
}

/// The argument paths that the documents lead to, or not.
pub(crate) const PATHS: [&[&str]; 4] = [&["region"], &["where", "zone"], &["where"], &[]];

/// A document.
pub(crate) fn document(tape: &mut Tape<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    blank(tape, &mut text);
    match tape.pick(16) {
        13 => value(tape, &mut text, 4),
        14 => deep(tape, &mut text),
        15 => garbage(tape, &mut text),
        _ => envelope(tape, &mut text),
    }
    blank(tape, &mut text);
    if tape.one_in(6) {
        mutate(tape, &mut text);
    }
    text
}

fn envelope(tape: &mut Tape<'_>, out: &mut Vec<u8>) {
    let members: &[&str] = match tape.pick(12) {
        8 => &["jsonrpc", "id", "result", "error"],
        9 => &["jsonrpc", "method", "params"],
        10 => &["jsonrpc", "id", "result"],
        11 => &["jsonrpc", "id", "error"],
        _ => &["jsonrpc", "id", "method", "params"],
    };
    let more = ["id", "method", "params", "result", "error", "x"];
    object(tape, out, members, &more, |tape, key, out| {
        match (key, tape.pick(16)) {
            ("jsonrpc", 14) => tape.write(out, &["\"2\\u002e0\"", "\"1.0\"", "2.0", "null", "{}"]),
            ("jsonrpc", _) => out.extend(b"\"2.0\""),
            ("id", 13) => string(tape, out),
            ("id", 14) => number(tape, out),
            ("id", 15) => tape.write(out, &["null", "true", "1.0", "1e3", "[]", "{}"]),
            ("id", _) => tape.write(
                out,
                &["1", "0", "-1", "9223372036854775807", "\"a\"", "\"\""],
            ),
            ("method", 13 | 14) => string(tape, out),
            ("method", 15) => tape.write(out, &["null", "{}", "1"]),
            ("method", _) => tape.write(
                out,
                &["\"tools/call\"", "\"ping\"", "\"tools\\/c\\u0061ll\""],
            ),
            ("params", 15) => tape.write(out, &["null", "{}", "[]", "1", "\"\""]),
            ("params", _) => params(tape, out),
            _ => value(tape, out, 3),
        }
    });
}

fn params(tape: &mut Tape<'_>, out: &mut Vec<u8>) {
    let all = [
        "name",
        "arguments",
        "_meta",
        "uri",
        "taskId",
        "cursor",
        "protocolVersion",
        "inputResponses",
        "requestState",
    ];
    let members: Vec<&str> = all.into_iter().filter(|_| !tape.one_in(3)).collect();
    let more = ["name", "uri", "_meta", "arguments", "x", "y"];
    object(tape, out, &members, &more, |tape, key, out| match key {
        "_meta" if !tape.one_in(8) => meta(tape, out),
        "arguments" if !tape.one_in(8) => arguments(tape, out),
        "x" | "y" => value(tape, out, 3),
        _ if tape.one_in(6) => value(tape, out, 2),
        _ => string(tape, out),
    });
}

fn meta(tape: &mut Tape<'_>, out: &mut Vec<u8>) {
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let mut members = vec![version, capabilities];
    if tape.one_in(2) {
        members.extend(["progressToken", "io.modelcontextprotocol/clientInfo"]);
    }
    let more = [version, "progressToken", "x"];
    object(tape, out, &members, &more, |tape, key, out| match key {
        _ if tape.one_in(6) => value(tape, out, 2),
        "progressToken" => number(tape, out),
        _ if key == capabilities => out.extend(b"{}"),
        _ => string(tape, out),
    });
}

fn arguments(tape: &mut Tape<'_>, out: &mut Vec<u8>) {
    let more = ["region", "where", "zone", "Region"];
    object(
        tape,
        out,
        &["region", "where", "rest"],
        &more,
        |tape, key, out| {
            if key != "where" || tape.one_in(6) {
                return value(tape, out, 2);
            }
            object(tape, out, &["zone"], &["zone", "region"], |tape, _, out| {
                value(tape, out, 2)
            });
        },
    );
}

/// An object with these members, and sometimes with others from `more`, which repeats some.
fn object(
    tape: &mut Tape<'_>,
    out: &mut Vec<u8>,
    members: &[&str],
    more: &[&str],
    mut value: impl FnMut(&mut Tape<'_>, &str, &mut Vec<u8>),
) {
    let mut members = members.to_vec();
    if tape.one_in(4) {
        let last = members.len();
        members.rotate_left(tape.pick(last.max(1)));
    }
    if tape.one_in(6) {
        for _ in 0..=tape.pick(4) {
            let at = tape.pick(members.len() + 1);
            members.insert(at, more[tape.pick(more.len())]);
        }
    }
    if tape.one_in(8) {
        members.truncate(tape.pick(4));
    }
    out.push(b'{');
    for (index, key) in members.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        blank(tape, out);
        spell(tape, key, out);
        blank(tape, out);
        out.push(b':');
        blank(tape, out);
        value(tape, key, out);
        blank(tape, out);
    }
    out.push(b'}');
}

/// A key, mostly as it is, sometimes with escape sequences or in another case.
fn spell(tape: &mut Tape<'_>, key: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let manner = tape.pick(200);
    let one = tape.pick(key.len().max(1));
    for (index, letter) in key.char_indices() {
        match manner {
            196 if index == one => out.extend(format!("\\u{:04x}", letter as u32).bytes()),
            197 if index == one => out.extend(letter.to_uppercase().to_string().bytes()),
            198 if letter == 's' => out.extend("ſ".bytes()),
            198 if letter == 'k' => out.extend("\\u212A".bytes()),
            199 if index == one => {
                tape.write(out, &["\\ud800", "\\n", "é", "\\uD83D\\uDE00"]);
            }
            _ => out.extend(letter.to_string().bytes()),
        }
    }
    out.push(b'"');
}

fn value(tape: &mut Tape<'_>, out: &mut Vec<u8>, depth: usize) {
    match tape.pick(if depth == 0 { 4 } else { 6 }) {
        0 => string(tape, out),
        1 => number(tape, out),
        2 | 3 => tape.write(
            out,
            &[
                "true", "false", "null", "{}", "[]", "\"\"", "[ ]", "tru", "nulL",
            ],
        ),
        4 => {
            out.push(b'[');
            for index in 0..tape.pick(4) {
                if index > 0 {
                    out.push(b',');
                }
                blank(tape, out);
                value(tape, out, depth - 1);
            }
            out.push(b']');
        }
        _ => object(tape, out, &["a", "b"], &["a", "c"], |tape, _, out| {
            value(tape, out, depth - 1)
        }),
    }
}

fn string(tape: &mut Tape<'_>, out: &mut Vec<u8>) {
    const PIECES: [&str; 26] = [
        "a",
        "Seattle, WA",
        "tools",
        "\\n",
        "\\\"",
        "\\\\",
        "\\/",
        "\\u0041",
        "\\u00e9",
        "\\u0000",
        "é",
        "日本",
        "😀",
        "\\ud83d\\ude00",
        "aaaaaaa",
        "0123456789abcdef0123456789abcdef",
        "{\\\"a\\\":[1]}",
        "\u{7f}",
        "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5eg==",
        "2026-07-28",
        "\u{2028}",
        "\\ud800",
        "\\udc00\\ud800",
        "\\x",
        "\u{1}",
        "\\u12g4",
    ];
    // The last few are no good, and rarer.
    out.push(b'"');
    for _ in 0..tape.pick(6) {
        let piece = if tape.one_in(20) {
            tape.pick(PIECES.len())
        } else {
            tape.pick(21)
        };
        out.extend(PIECES[piece].bytes());
    }
    out.push(b'"');
}

fn number(tape: &mut Tape<'_>, out: &mut Vec<u8>) {
    let good = [
        "1",
        "0",
        "-0",
        "42",
        "-7",
        "9223372036854775807",
        "123456789012345678901234567890",
        "1.0",
        "-0.5",
        "1e3",
        "1E-2",
        "2.5e+10",
    ];
    let bad = [
        "01", "-", "1.", ".5", "1e", "+1", "0x1", "1e+", "--1", "NaN",
    ];
    let choices: &[&str] = if tape.one_in(16) { &bad } else { &good };
    tape.write(out, choices);
}

fn blank(tape: &mut Tape<'_>, out: &mut Vec<u8>) {
    match tape.pick(8) {
        6 => out.push(b' '),
        7 => tape.write(out, &["\n", "\r\n", "\t", "  \n\t ", "                "]),
        _ => {}
    }
}

/// Objects and arrays within one another, about as many as are allowed.
fn deep(tape: &mut Tape<'_>, out: &mut Vec<u8>) {
    let depth = [3, 6, 7, 8, 9, 62, 63, 64, 65, 80][tape.pick(10)];
    let arrays = tape.one_in(2);
    tape.write(
        out,
        &["{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"m\",\"x\":", "["],
    );
    let closing = if out.ends_with(b"[") { b']' } else { b'}' };
    for _ in 1..depth {
        out.extend(if arrays { "[" } else { "{\"a\":" }.bytes());
    }
    out.push(b'1');
    for _ in 1..depth {
        out.push(if arrays { b']' } else { b'}' });
    }
    out.push(closing);
}

fn garbage(tape: &mut Tape<'_>, out: &mut Vec<u8>) {
    const TOKENS: [&str; 14] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "1",
        "true",
        "null",
        " ",
        "\\",
        "{\"a\":1}",
    ];
    for _ in 0..tape.pick(12) {
        tape.write(out, &TOKENS);
    }
}

/// Breaks a byte or a few.
fn mutate(tape: &mut Tape<'_>, text: &mut Vec<u8>) {
    const BYTES: &[u8] = b"\"\\{}[]:, 0a\x00\x1f\x80\xbf\xc3\xe2\xed\xf0\xf5\xff";
    let at = (tape.pick(256) * 256 + tape.pick(256)) % (text.len() + 1);
    let byte = BYTES[tape.pick(BYTES.len())];
    match tape.pick(7) {
        0 => text.truncate(at),
        1 => text.insert(at, byte),
        2 if at < text.len() => text[at] = byte,
        3 if at < text.len() => {
            text.remove(at);
        }
        4 => tape.write(text, &["x", "{}", "\n", ",", "\u{FEFF}", "\0"]),
        5 => {
            let mut front = Vec::new();
            tape.write(&mut front, &["\u{FEFF}", "\u{FEFF} ", "\0", "x", "é"]);
            text.splice(0..0, front);
        }
        _ => {
            let cut = text.split_off(at);
            text.extend(&cut[..cut.len().min(tape.pick(16))]);
            text.extend(cut);
        }
    }
}
