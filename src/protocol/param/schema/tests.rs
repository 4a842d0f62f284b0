use super::*;

/// The header names and paths of a schema.
fn read(schema: &str) -> Result<Vec<(String, String)>, Invalid> {
    let found = annotations(schema)?;
    let pairs = found.iter().map(|annotation| {
        let path: Vec<&str> = annotation.path().iter().map(|name| &**name).collect();
        (annotation.spelled().to_owned(), path.join("/"))
    });
    Ok(pairs.collect())
}

fn properties(properties: &str) -> String {
    format!(r#"{{"type":"object","properties":{{{properties}}}}}"#)
}

#[test]
fn annotations_are_found_along_properties() {
    let schema = properties(
        r#""region":{"x-mcp-header":"Region","type":"string","enum":["a"]},"q":{"type":"number"},
           "where":{"type":"object","properties":{
               "n":{"type":"integer","x-mcp-header":"Where-N"},"":{"type":"boolean","x-mcp-header":"Empty"}}}"#,
    );
    let pair = |header: &str, path: &str| (header.to_owned(), path.to_owned());
    assert_eq!(
        read(&schema),
        Ok(vec![
            pair("Mcp-Param-Region", "region"),
            pair("Mcp-Param-Where-N", "where/n"),
            pair("Mcp-Param-Empty", "where/"),
        ])
    );
    let escaped = properties(r#""a\u0062":{"\u0074ype":"string","x-mcp\u002dheader":"\u0041"}"#);
    assert_eq!(read(&escaped), Ok(vec![pair("Mcp-Param-A", "ab")]));
    for plain in [r#"{}"#, r#"{"type":"object","additionalProperties":false}"#] {
        assert_eq!(read(plain), Ok(Vec::new()));
    }
}

#[test]
fn what_is_data_is_no_annotation() {
    for (schema, found) in [
        (properties(r#""x-mcp-header":{"type":"string"}"#), 0),
        (
            properties(r#""x-mcp-header":{"type":"string","x-mcp-header":"A"}"#),
            1,
        ),
        (properties(r#""a":{"default":{"x-mcp-header":"a b"}}"#), 0),
        (
            properties(r#""a":{"const":{"x-mcp-header":""},"enum":[{"x-mcp-header":1}]}"#),
            0,
        ),
        (
            properties(r#""a":{"examples":[{"items":{"x-mcp-header":"A"}}]}"#),
            0,
        ),
        (
            properties(r#""a":{"x-form":{"properties":{"b":{"x-mcp-header":"A"}}}}"#),
            0,
        ),
        (properties(r#""a":{"required":["x-mcp-header"]}"#), 0),
        // Names that are keywords elsewhere.
        (
            properties(r#""items":{"type":"string","x-mcp-header":"A"}"#),
            1,
        ),
        (
            properties(
                r#""properties":{"type":"object","properties":{"if":{"type":"string","x-mcp-header":"A"}}}"#,
            ),
            1,
        ),
        (
            r#"{"$defs":{"x-mcp-header":{"type":"string"}}}"#.to_owned(),
            0,
        ),
        (
            r#"{"patternProperties":{"x-mcp-header":{}},"dependentSchemas":{"x-mcp-header":true}}"#
                .to_owned(),
            0,
        ),
    ] {
        assert_eq!(
            read(&schema).map(|found| found.len()),
            Ok(found),
            "{schema}"
        );
    }
}

#[test]
fn an_annotation_that_properties_do_not_lead_to_is_invalid() {
    let inner = r#"{"type":"string","x-mcp-header":"A"}"#;
    let mut schemas = vec![
        inner.to_owned(),
        properties(&format!(
            r#""a":{{"properties":{{"b":{{"items":{inner}}}}}}}"#
        )),
        format!(r#"{{"items":{{"properties":{{"a":{inner}}}}}}}"#),
        format!(r#"{{"allOf":[{{"properties":{{"a":{inner}}}}}]}}"#),
        format!(r#"{{"dependencies":{{"a":["b"],"c":{inner}}}}}"#),
        // What a `$ref` leads to is reached through `$defs`, whoever refers to it.
        format!(r##"{{"properties":{{"a":{{"$ref":"#/$defs/r"}}}},"$defs":{{"r":{inner}}}}}"##),
    ];
    for keyword in ["oneOf", "anyOf", "allOf", "prefixItems", "items"] {
        schemas.push(format!(r#"{{"{keyword}":[true,{inner}]}}"#));
    }
    for keyword in [
        "items",
        "additionalItems",
        "unevaluatedItems",
        "contains",
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    ] {
        schemas.push(format!(r#"{{"{keyword}":{inner}}}"#));
    }
    for keyword in [
        "$defs",
        "definitions",
        "patternProperties",
        "dependentSchemas",
    ] {
        schemas.push(format!(r#"{{"{keyword}":{{"x":{inner}}}}}"#));
    }
    for schema in schemas {
        assert!(
            matches!(read(&schema), Err(Invalid::Unreachable { .. })),
            "{schema}: {:?}",
            read(&schema)
        );
    }
}

#[test]
fn an_annotation_has_a_token_a_type_and_no_double() {
    let one = |kind: &str, header: &str| {
        read(&properties(&format!(
            r#""a":{{"type":{kind},"x-mcp-header":{header}}}"#
        )))
    };
    for kind in [r#""string""#, r#""integer""#, r#""boolean""#] {
        assert!(one(kind, r#""A""#).is_ok(), "{kind}");
    }
    for kind in [
        r#""number""#,
        r#""object""#,
        r#""array""#,
        r#""null""#,
        r#"["string","null"]"#,
        r#"["string"]"#,
        "null",
    ] {
        let invalid = one(kind, r#""A""#);
        assert!(matches!(invalid, Err(Invalid::Type { .. })), "{kind}");
    }
    let untyped = read(&properties(r#""a":{"x-mcp-header":"A"}"#));
    assert!(matches!(untyped, Err(Invalid::Type { kind: None, .. })));
    for header in [
        r#""""#,
        r#""My Region""#,
        r#""a:b""#,
        r#""R\u00e9gion""#,
        r#""a\tb""#,
        r#""a\r\nb""#,
        r#""a/b""#,
    ] {
        let invalid = one(r#""string""#, header);
        assert!(matches!(invalid, Err(Invalid::Token { .. })), "{header}");
    }
    for header in ["null", "7", "true", r#"["A"]"#, r#"{"A":1}"#] {
        let invalid = one(r#""string""#, header);
        assert!(matches!(invalid, Err(Invalid::NoString { .. })), "{header}");
    }
    let token = r#""!#$%&'*+-.^_`|~aZ09""#;
    assert!(one(r#""string""#, token).is_ok());
    for other in ["MyField", "myfield"] {
        let twice = read(&properties(&format!(
            r#""a":{{"type":"string","x-mcp-header":"MyField"}},"b":{{"type":"object","properties":{{
               "c":{{"type":"string","x-mcp-header":"{other}"}}}}}}"#
        )));
        assert_eq!(twice, Err(Invalid::Twice(other.to_owned())));
    }
}

#[test]
fn a_schema_that_two_readers_could_take_differently_is_invalid() {
    let a = r#"{"type":"string","x-mcp-header":"A"}"#;
    for schema in [
        format!(r#"{{"properties":{{"a":{a}}},"properties":{{}}}}"#),
        properties(&format!(r#""a":{a},"\u0061":{{"type":"string"}}"#)),
        properties(r#""a":{"type":"string","type":"integer","x-mcp-header":"A"}"#),
        properties(r#""a":{"type":"string","x-mcp-header":"A","x-mcp-header":"A"}"#),
    ] {
        let invalid = read(&schema);
        assert!(matches!(invalid, Err(Invalid::Repeated(_))), "{schema}");
    }
    // Where nothing is read from it, it is for others to judge.
    assert_eq!(read(r#"{"type":"object","type":"object"}"#), Ok(Vec::new()));
}

#[test]
fn what_cannot_be_read_is_invalid() {
    for schema in ["[]", "true", "null", "7", r#""x""#] {
        assert_eq!(read(schema), Err(Invalid::NoObject), "{schema}");
    }
    let deep = format!("{}{}", r#"{"not":"#.repeat(10_000), "{}");
    for schema in ["", "{", "{} {}", &deep] {
        let invalid = read(schema);
        assert!(
            matches!(invalid, Err(Invalid::Unreadable(_))),
            "{invalid:?}"
        );
    }
    // Data may be of any depth.
    let data = format!(
        r#"{{"default":{}{}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    assert_eq!(read(&data), Ok(Vec::new()));
}

#[test]
fn the_number_and_the_length_of_annotations_are_bounded() {
    let many = |count: usize, bytes: usize| {
        let one = |at| {
            let name = "n".repeat(bytes);
            format!(r#""{name}{at}":{{"type":"string","x-mcp-header":"H{at}"}}"#)
        };
        let all: Vec<String> = (0..count).map(one).collect();
        read(&properties(&all.join(","))).map(|found| found.len())
    };
    assert_eq!(many(ANNOTATIONS_MAX, 1), Ok(ANNOTATIONS_MAX));
    assert_eq!(many(ANNOTATIONS_MAX + 1, 1), Err(Invalid::TooMany));
    assert_eq!(many(2, NAMES_BYTES_MAX / 2), Err(Invalid::TooMany));
}
