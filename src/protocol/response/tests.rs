use super::*;

use proptest::prelude::*;

fn response(json: &str) -> Response {
    match Message::read(Bytes::copy_from_slice(json.as_bytes())) {
        Message::Response(response) => response,
        other => panic!("{json}: {other:?}"),
    }
}

fn why(json: &[u8]) -> Option<Unreadable> {
    match Message::read(Bytes::copy_from_slice(json)) {
        Message::Unreadable(why) => Some(why),
        _ => None,
    }
}

/// A result with these members.
fn result(members: &str) -> Response {
    response(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{{members}}}}}"#
    ))
}

#[test]
fn messages_are_told_apart() {
    let methods = [
        r#"{"jsonrpc":"2.0","method":"notifications\/progress","params":{"a":1,"a":2}}"#,
        r#" {"id":1,"method":"notifications/progress"} "#,
    ];
    for json in methods {
        match Message::read(Bytes::from_static(json.as_bytes())) {
            Message::Other { method } => assert_eq!(method, "notifications/progress"),
            other => panic!("{json}: {other:?}"),
        }
    }
    let error = response(r#"{"id":null,"error":{"code":-32602,"message":"x"}}"#);
    assert_eq!(error.error(), Some(ErrorObject { code: Some(-32602) }));
    assert_eq!(error.id(), Some(&b"null"[..]));
    assert!(!error.is_complete() && error.result().is_none() && error.hints().is_err());
    for odd in [
        r#"{"error":"x"}"#,
        r#"{"error":{"code":1.5}}"#,
        r#"{"error":{}}"#,
    ] {
        let odd = response(odd);
        assert_eq!(
            (odd.error(), odd.id()),
            (Some(ErrorObject { code: None }), None)
        );
    }
    let empty = response(r#"{"id":1,"result": {} }"#);
    assert_eq!((empty.error(), empty.result()), (None, Some(&b"{}"[..])));
}

#[test]
fn an_id_is_whatever_stands_there() {
    for id in [
        "9223372036854775808",
        "-0",
        "1.0",
        r#""""#,
        r#""\u0061""#,
        "null",
        "[ 1 ]",
    ] {
        let response = response(&format!(r#"{{"result":{{}} , "id" : {id} }}"#));
        assert_eq!(response.id(), Some(id.as_bytes()));
        assert_eq!(
            response
                .edited(&Edit {
                    id: Some(b"7"),
                    ..Edit::default()
                })
                .whole(),
            r#"{"result":{} , "id" : 7 }"#
        );
    }
}

#[test]
fn what_two_readers_could_understand_differently_is_unreadable() {
    let cases: [(&[u8], Unreadable); 24] = [
        (b"", Unreadable::Json),
        (b"{", Unreadable::Json),
        (br#"{"id":1,"result":{}} {}"#, Unreadable::Json),
        (b"\xef\xbb\xbf{\"id\":1,\"result\":{}}", Unreadable::Json),
        (b"{\"id\":1,\"result\":{\"x\":\"\xff\"}}", Unreadable::Json),
        (b"{\"id\":1,\"result\":{\"\xff\":1}}", Unreadable::Json),
        (br#"{"id":1,"result":{"\ud800":1}}"#, Unreadable::Json),
        (br#"{"id":1,"result":{"a":[1,]}}"#, Unreadable::Json),
        (br#"[{"id":1,"result":{}}]"#, Unreadable::NotAnObject),
        (b" 7", Unreadable::NotAnObject),
        (br#"{"id":1,"id":1,"result":{}}"#, Unreadable::RepeatedKey),
        (
            br#"{"id":1,"x":1,"\u0078":2,"result":{}}"#,
            Unreadable::RepeatedKey,
        ),
        (
            br#"{"id":1,"result":{"x":1,"x":1}}"#,
            Unreadable::RepeatedKey,
        ),
        (
            br#"{"id":1,"error":{"code":1,"code":2}}"#,
            Unreadable::RepeatedKey,
        ),
        (
            br#"{"id":1,"result":{"tools":[{"name":"a","nam\u0065":"b"}]}}"#,
            Unreadable::RepeatedKey,
        ),
        (
            br#"{"id":1,"result":{"resources":[1,{"x":1,"x":1}]}}"#,
            Unreadable::RepeatedKey,
        ),
        (b"{}", Unreadable::Kind),
        (br#"{"id":1,"result":{},"error":{}}"#, Unreadable::Kind),
        (br#"{"id":1,"result":{},"error":null}"#, Unreadable::Kind),
        (br#"{"id":1,"result":{},"method":"x"}"#, Unreadable::Kind),
        (br#"{"id":1,"method":null}"#, Unreadable::Method),
        (br#"{"id":1,"result":null}"#, Unreadable::Result),
        (br#"{"id":1,"result":[]}"#, Unreadable::Result),
        (br#"{"result":{}}"#, Unreadable::Id),
    ];
    for (json, expected) in cases {
        assert_eq!(
            why(json),
            Some(expected),
            "{}",
            String::from_utf8_lossy(json)
        );
    }
}

/// Nothing recurses into what nobody looks at, and it passes.
#[test]
fn depth_costs_no_stack() {
    let deep = ["[".repeat(1_000_000), "]".repeat(1_000_000)].concat();
    for members in [
        format!(r#""x":{deep}"#),
        format!(r#""tools":[{{"x":{deep}}}]"#),
    ] {
        assert!(result(&members).is_complete());
    }
}

#[test]
fn only_complete_results_are_complete() {
    assert!(result("").is_complete());
    assert!(result(r#""resultType":"complete""#).is_complete());
    assert!(result(r#""resultType":"comple\u0074e""#).is_complete());
    for other in [
        r#""input_required""#,
        r#""Complete""#,
        "null",
        "true",
        r#"["complete"]"#,
    ] {
        assert!(
            !result(&format!(r#""resultType":{other}"#)).is_complete(),
            "{other}"
        );
    }
}

#[test]
fn hints_count_only_where_they_are_exactly_valid() {
    let hints =
        |ttl: &str, scope: &str| result(&format!(r#""ttlMs":{ttl},"cacheScope":{scope}"#)).hints();
    let public = |ttl_ms| {
        Ok(Hints {
            ttl_ms,
            scope: Scope::Public,
        })
    };
    assert_eq!(hints("0", r#""public""#), public(0));
    assert_eq!(hints("300000", r#""publi\u0063""#), public(300_000));
    assert_eq!(
        hints("18446744073709551616", r#""public""#),
        public(u64::MAX)
    );
    assert_eq!(hints("1", r#""private""#).unwrap().scope, Scope::Private);
    for ttl in [
        "-1", "-0", "1.0", "1e3", "1E3", "null", r#""1""#, "true", "[1]", "{}",
    ] {
        assert_eq!(
            hints(ttl, r#""public""#),
            Err(HintFault::TtlInvalid),
            "{ttl}"
        );
    }
    for scope in [
        r#""Public""#,
        r#""""#,
        "null",
        "1",
        r#"["public"]"#,
        r#""public ""#,
    ] {
        assert_eq!(hints("1", scope), Err(HintFault::ScopeInvalid), "{scope}");
    }
    assert_eq!(
        result(r#""cacheScope":"public""#).hints(),
        Err(HintFault::TtlAbsent)
    );
    assert_eq!(result(r#""ttlMs":1"#).hints(), Err(HintFault::ScopeAbsent));
}

#[test]
fn items_are_listed_with_and_without_a_name() {
    let response = result(
        r#""tools":[ {"inputSchema":{"type" : "object"},"name":"a\u002fb","annotations":{"x":1}} ,
        {"name":7},{"uri":"x"}, null,[{"name":"no"}],{"name":"\ud800"},{"name":"z"}],"resources":{},
        "resourceTemplates":[{"name":"n","uriTemplate":"t:{x}"}],"prompts":[]"#,
    );
    let names: Vec<_> = response
        .items(List::Tools)
        .unwrap()
        .map(|item| item.name())
        .collect();
    let name = |text| Some(Cow::Borrowed(text));
    assert_eq!(
        names,
        [name("a/b"), None, None, None, None, None, name("z")]
    );
    let mut tools = response.items(List::Tools).unwrap();
    let first = tools.next().unwrap();
    assert_eq!(first.input_schema(), Some(r#"{"type" : "object"}"#));
    assert_eq!(first.annotations(), Some(r#"{"x":1}"#));
    assert_eq!(tools.len(), 6);
    assert_eq!(tools.nth(2).unwrap().raw(), b"null");
    let template = response
        .items(List::ResourceTemplates)
        .unwrap()
        .next()
        .unwrap();
    assert_eq!(
        (template.name(), template.annotations()),
        (name("t:{x}"), None)
    );
    assert_eq!(response.items(List::Prompts).unwrap().len(), 0);
    assert!(
        response.items(List::Resources).is_none(),
        "an object is no list"
    );
    assert!(response.held_bytes() > response.bytes().len());
}

#[test]
fn the_next_page_is_named_as_its_cursor_is_written() {
    let cursor = result(r#""nextCursor":"a\/b""#);
    assert_eq!(cursor.next_cursor(), Some(&br#""a\/b""#[..]));
    assert_eq!(result(r#""nextCursor":null"#).next_cursor(), None);
    assert_eq!(result("").next_cursor(), None);
}

#[test]
fn a_discover_result_says_what_the_server_can_do() {
    let discovered = result(
        r#""supportedVersions": ["2026-07-28"] ,"capabilities":{"tools":{"listChanged":true},
        "prompts":{"listChanged":false},"resources":{"subscribe":true}}"#,
    );
    assert_eq!(
        discovered.supported_versions(),
        Some(&br#"["2026-07-28"]"#[..])
    );
    let expected = Capabilities {
        tools: true,
        tools_list_changed: true,
        resources_subscribe: true,
        ..Capabilities::default()
    };
    assert_eq!(discovered.capabilities(), Some(expected));
    for unclear in [
        "[]",
        r#"{"tools":{"a":1,"a":1}}"#,
        r#"{"tools":null}"#,
        r#"{"x":1,"x":1}"#,
    ] {
        assert_eq!(
            result(&format!(r#""capabilities":{unclear}"#)).capabilities(),
            None
        );
    }
}

#[test]
fn what_is_not_there_is_not_added_and_what_does_not_change_is_shared() {
    let edit = Edit {
        id: Some(b"1"),
        ttl_ms: Some(5),
        private: true,
        items: &[(List::Tools, &[])],
        supported_versions: Some(b"[]"),
    };
    let without = [
        result(""),
        result(r#""ttlMs":5,"cacheScope":"privat\u0065","tools":[],"supportedVersions":[]"#),
        response(r#"{"id":1,"error":{"ttlMs":1,"tools":[1]}}"#),
        response(r#"{"error":{}}"#),
    ];
    for response in without {
        assert_eq!(
            response.edited(&edit).whole().as_ptr(),
            response.bytes().as_ptr()
        );
    }
    let all = result(r#""tools":[1 , 2]"#);
    let chosen: &[usize] = &[0, 1];
    let edit = Edit {
        items: &[(List::Tools, chosen), (List::Prompts, &[])],
        ..Edit::default()
    };
    assert_eq!(all.edited(&edit).whole(), all.bytes());
}

#[test]
fn the_edited_bytes() {
    let before = response(
        r#"{ "result":{"tools" : [ {"name":"b"} , 2.0,{"name" : "a"} ],"x":1.0,"ttlMs": 300 ,
        "prompts":[1],"cacheScope":"public","supportedVersions":["9"]}, "id":"x"}"#,
    );
    let edit = Edit {
        id: Some(b"17"),
        ttl_ms: Some(29),
        private: true,
        items: &[(List::Tools, &[2, 0, 9]), (List::Prompts, &[])],
        supported_versions: Some(br#"["1"]"#),
    };
    let after = r#"{ "result":{"tools" : [{"name" : "a"},{"name":"b"}],"x":1.0,"ttlMs": 29 ,
        "prompts":[],"cacheScope":"private","supportedVersions":["1"]}, "id":17}"#;
    assert_eq!(before.edited(&edit).whole(), after);
    let scopeless = result(r#""cacheScope":["?"]"#);
    let edit = Edit {
        private: true,
        ..Edit::default()
    };
    assert_eq!(
        scopeless.edited(&edit).whole(),
        r#"{"jsonrpc":"2.0","id":1,"result":{"cacheScope":"private"}}"#
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = Notification::read(&bytes);
        let is_json = serde_json::from_slice::<&serde_json::value::RawValue>(&bytes).is_ok();
        prop_assert!(is_json || why(&bytes).is_some());
    }
}
