//! Subscriptions, the long streams of the modern era (specification, "Subscriptions").

/// The graceful end of the subscription that the request with this raw `id` opened: its response,
/// which tells the client not to come back (specification, "Graceful Closure").
///
/// The id is spliced in as the token that the client sent, so that a number is never rounded.
#[must_use]
pub fn closure(id: &[u8]) -> Vec<u8> {
    [
        &br#"{"jsonrpc":"2.0","id":"#[..],
        id,
        br#","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"#,
        id,
        b"}}}",
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closure_has_the_id_twice_as_it_was_sent() {
        assert_eq!(
            String::from_utf8(closure(b"9223372036854775807")).unwrap(),
            "{\"jsonrpc\":\"2.0\",\"id\":9223372036854775807,\"result\":{\"resultType\":\
             \"complete\",\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":\
             9223372036854775807}}}"
        );
        let closure: serde_json::Value = serde_json::from_slice(&closure(br#""\u0061""#)).unwrap();
        assert_eq!(closure["id"], "a");
    }
}
