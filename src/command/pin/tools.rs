//! All tools of an upstream with the digests of their definitions, page by page.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::client::{Client, Fault, Terms};
use crate::policy::finding::Flaw;
use crate::policy::pin;
use crate::policy::plan::Upstream;
use crate::protocol::canonical::Digest;
use crate::protocol::response::{List, Response};

/// Most pages of a list.
const PAGES_MAX: usize = 1000;
/// Most tools of a list.
const TOOLS_MAX: usize = 100_000;

/// Lists the tools of `upstream` in the current version, or else in an older one.
///
/// # Errors
/// Why there is no list, or none that could be pinned.
pub(super) async fn list(upstream: Arc<Upstream>) -> Result<BTreeMap<String, Digest>, Flaw> {
    let url = upstream.url();
    let listed = match Client::of(upstream) {
        Ok(client) => list_of(client).await,
        Err(error) => Err(Fault::Unreachable(error.to_string())),
    };
    listed.map_err(|fault| match fault {
        Fault::Unreachable(why) => Flaw::new(
            format!("{url} cannot be asked: {why}"),
            "check the URL, and whether the server runs and can be reached from here",
        ),
        Fault::Answered { why, credentials } => Flaw::new(
            format!("{url} does not list its tools: {why}"),
            match credentials {
                true => {
                    "the server asks for credentials, which `weirgate pin` does not send: pin it by \
                     a URL where it asks for none"
                }
                false => "check whether the URL is that of an MCP endpoint over Streamable HTTP",
            },
        ),
    })
}

async fn list_of(mut client: Client) -> Result<BTreeMap<String, Digest>, Fault> {
    let modern = Terms::modern();
    let (terms, first) = match page(&mut client, &modern, None).await {
        Ok(first) => (modern, first),
        Err(Fault::Answered { why, credentials }) => {
            let older = older(&mut client).await;
            older.map_err(|fault| add(fault, &why, credentials))?
        }
        Err(unreachable) => return Err(unreachable),
    };
    let listed = pages(&mut client, &terms, first).await;
    client.leave(&terms).await;
    listed
}

/// The first page in an older version.
async fn older(client: &mut Client) -> Result<(Terms, Response), Fault> {
    let terms = client.initialize().await?;
    match page(client, &terms, None).await {
        Ok(first) => Ok((terms, first)),
        Err(fault) => {
            client.leave(&terms).await;
            Err(fault)
        }
    }
}

/// The fault of an older version, with what the current one came to.
fn add(fault: Fault, modern: &str, modern_credentials: bool) -> Fault {
    match fault {
        Fault::Answered { why, credentials } => Fault::Answered {
            why: match why == modern {
                true => why,
                false => format!("{modern}; and in an older version, {why}"),
            },
            credentials: credentials || modern_credentials,
        },
        unreachable @ Fault::Unreachable(_) => unreachable,
    }
}

/// One page, which is one of tools.
async fn page(client: &mut Client, terms: &Terms, cursor: Option<&str>) -> Result<Response, Fault> {
    let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
    let page = client.ask(terms, "tools/list", params).await?;
    if page.items(List::Tools).is_none() {
        return Err(Fault::answered("the result of `tools/list` has no `tools`"));
    }
    Ok(page)
}

/// The tools of all pages.
async fn pages(
    client: &mut Client,
    terms: &Terms,
    first: Response,
) -> Result<BTreeMap<String, Digest>, Fault> {
    let mut tools = BTreeMap::new();
    let mut cursors = HashSet::new();
    let mut next = first;
    loop {
        collect(&next, &mut tools)?;
        let Some(cursor) = next.next_cursor() else {
            return Ok(tools);
        };
        let Ok(Value::String(cursor)) = serde_json::from_slice(cursor) else {
            return Err(Fault::answered("the cursor of a page is no text"));
        };
        if cursors.len() + 1 >= PAGES_MAX {
            let why = format!("the list has more than {PAGES_MAX} pages");
            return Err(Fault::answered(why));
        }
        next = page(client, terms, Some(&cursor)).await?;
        if !cursors.insert(cursor) {
            return Err(Fault::answered(
                "the same cursor came twice, and would for ever",
            ));
        }
    }
}

/// Adds the tools of a page.
fn collect(page: &Response, tools: &mut BTreeMap<String, Digest>) -> Result<(), Fault> {
    for tool in page.items(List::Tools).into_iter().flatten() {
        let Some(name) = tool.name() else {
            return Err(Fault::answered("a tool has no name"));
        };
        let digest = pin::digest(tool.raw()).map_err(|why| {
            let name = name.escape_debug();
            Fault::answered(format!("the definition of {name} cannot be pinned: {why}"))
        })?;
        if tools.len() >= TOOLS_MAX {
            let why = format!("the list has more than {TOOLS_MAX} tools");
            return Err(Fault::answered(why));
        }
        if tools.insert(name.clone().into_owned(), digest).is_some() {
            let name = name.escape_debug();
            return Err(Fault::answered(format!("the tool {name} is listed twice")));
        }
    }
    Ok(())
}
