//! Which answers are meant: all, or those of a route, a method or a URI.

/// Which answers in memory are meant; each that is named must be the answer's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The name of a route.
    pub route: Option<String>,
    /// A method, such as `tools/list`.
    pub method: Option<String>,
    /// The URI of a resource.
    pub uri: Option<String>,
}

impl Filter {
    /// Reads the query of a request.
    ///
    /// # Errors
    /// What is not understood: a purge that overlooked a misspelt name would drop everything, and so
    /// would one by a name that came out empty.
    pub fn read(query: &str) -> Result<Filter, String> {
        let mut filter = Filter::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let part = match &*name {
                "route" => &mut filter.route,
                "method" => &mut filter.method,
                "uri" => &mut filter.uri,
                _ => return Err(format!("no `{name}` here: there are route, method and uri")),
            };
            if value.is_empty() {
                return Err(format!("`{name}` has no value"));
            }
            if part.replace(value.into_owned()).is_some() {
                return Err(format!("`{name}` stands more than once"));
            }
        }
        Ok(filter)
    }

    /// Whether an answer of this route, method and URI is meant.
    #[must_use]
    pub fn admits(&self, route: &str, method: &str, uri: Option<&str>) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.is_none() || wanted.as_deref() == found
        };
        is(&self.route, Some(route)) && is(&self.method, Some(method)) && is(&self.uri, uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_understood_whole_or_refused() {
        let filter = Filter::read("route=main&uri=file%3A%2F%2F%2Fa%2Bb&method=resources/read");
        let expected = Filter {
            route: Some("main".to_owned()),
            method: Some("resources/read".to_owned()),
            uri: Some("file:///a+b".to_owned()),
        };
        assert_eq!(filter, Ok(expected));
        assert_eq!(Filter::read(""), Ok(Filter::default()));
        for (query, why) in [
            ("rout=main", "no `rout`"),
            ("route", "no value"),
            ("route=", "no value"),
            ("uri=a&uri=b", "more than once"),
            ("route=a;method=b&x", "no `x`"),
        ] {
            let found = Filter::read(query).unwrap_err();
            assert!(found.contains(why), "{query}: {found}");
        }
    }

    #[test]
    fn all_that_is_named_must_be_so() {
        let all = Filter::default();
        assert!(
            all.admits("r", "tools/list", None) && all.admits("s", "resources/read", Some("u"))
        );
        let filter = Filter::read("route=r&uri=u").unwrap();
        assert!(filter.admits("r", "resources/read", Some("u")));
        for (route, uri) in [("r", None), ("r", Some("u/")), ("s", Some("u"))] {
            assert!(
                !filter.admits(route, "resources/read", uri),
                "{route} {uri:?}"
            );
        }
    }
}
