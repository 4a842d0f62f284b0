//! The fields of a request's head that decide something, each read exactly once, in one pass.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::header::{Reading, trim};

/// What a head says, as far as anything is decided by it.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// `Host`
    pub host: Reading<'a>,
    /// `Origin`
    pub origin: Reading<'a>,
    /// `Content-Type`
    pub content_type: Reading<'a>,
    /// `Content-Encoding`
    pub content_encoding: Reading<'a>,
    /// `Transfer-Encoding`
    pub transfer_encoding: Reading<'a>,
    /// `MCP-Protocol-Version`
    pub protocol_version: Reading<'a>,
    /// `Mcp-Method`
    pub method: Reading<'a>,
    /// `Mcp-Name`
    pub name: Reading<'a>,
    /// `Mcp-Session-Id`
    pub session_id: Reading<'a>,
    /// How many field lines there are.
    pub count: usize,
    /// How many bytes they take together, with their colons, blanks and line ends.
    pub bytes: usize,
}

impl<'a> Fields<'a> {
    /// Reads `headers`.
    #[must_use]
    pub fn read(headers: &'a HeaderMap) -> Fields<'a> {
        let mut fields = Fields {
            host: Reading::Absent,
            origin: Reading::Absent,
            content_type: Reading::Absent,
            content_encoding: Reading::Absent,
            transfer_encoding: Reading::Absent,
            protocol_version: Reading::Absent,
            method: Reading::Absent,
            name: Reading::Absent,
            session_id: Reading::Absent,
            count: 0,
            bytes: 0,
        };
        for (name, value) in headers {
            fields.note(name, value);
        }
        fields
    }

    fn note(&mut self, name: &HeaderName, value: &'a HeaderValue) {
        let name = name.as_str();
        self.count += 1;
        self.bytes += name.len() + value.len() + ": \r\n".len();
        let reading = match name {
            "host" => &mut self.host,
            "origin" => &mut self.origin,
            "content-type" => &mut self.content_type,
            "content-encoding" => &mut self.content_encoding,
            "transfer-encoding" => &mut self.transfer_encoding,
            "mcp-protocol-version" => &mut self.protocol_version,
            "mcp-method" => &mut self.method,
            "mcp-name" => &mut self.name,
            "mcp-session-id" => &mut self.session_id,
            _ => return,
        };
        *reading = match reading {
            Reading::Absent => Reading::Once(trim(value.as_bytes())),
            Reading::Once(_) | Reading::Repeated => Reading::Repeated,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_once_or_not_at_all() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("mcp-method", " tools/call\t"),
            ("mcp-name", "Seattle, WA"),
            ("host", "a"),
            ("Host", "a"),
            ("x-other", "b"),
        ] {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_static(value));
        }
        let fields = Fields::read(&headers);
        assert_eq!(fields.method, Reading::Once(b"tools/call"));
        assert_eq!(fields.name, Reading::Once(b"Seattle, WA"));
        assert_eq!(fields.host, Reading::Repeated);
        assert_eq!(fields.session_id, Reading::Absent);
        assert_eq!(fields.count, 5);
        let names = "mcp-method".len() + "mcp-name".len() + "hosthost".len() + "x-other".len();
        let values = " tools/call\t".len() + "Seattle, WA".len() + "aab".len();
        assert_eq!(fields.bytes, names + values + 5 * 4);
    }
}
