//! rmcp as a client. Usage: `MODE=auto|legacy|2026-07-28 client URL [everything]`
//!
//! The transcript has the form that `clients/steps.mjs` describes.

// Roots are deprecated, and yet real servers ask for them.
#![allow(deprecated)]

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use rmcp::model::*;
use rmcp::service::{
    NotificationContext, PeerRequestOptions, RequestContext, RoleClient, RunningService,
    ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

fn note(kind: &str, value: Value) {
    println!("{}", json!({ "note": kind, "value": value }));
}

/// Tells how a step went, and gives its result. Long values are told by their length and a hash.
fn tell<T: Serialize>(name: &str, required: bool, result: Result<T, String>) -> Option<T> {
    let ok = result.is_ok();
    let mut value = result
        .as_ref()
        .map_or_else(|error| json!(error), |value| json!(value));
    let long = value.to_string();
    if long.len() > 4000 {
        let mut hasher = DefaultHasher::new();
        hasher.write(long.as_bytes());
        value = json!({ "bytes": long.len(), "hash": hasher.finish() });
    }
    println!(
        "{}",
        json!({ "step": name, "ok": ok, "required": required, "value": value })
    );
    result.ok()
}

/// Answers what servers ask, and tells what they send of their own accord.
#[derive(Clone, Default)]
struct Answers {
    progress: Arc<Notify>,
}

impl ClientHandler for Answers {
    fn get_info(&self) -> ClientConfig {
        let able = ClientCapabilities::builder()
            .enable_elicitation()
            .enable_roots()
            .build();
        ClientConfig::new(able, Implementation::new("rmcp", "3.11.0"))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let content = json!({ "name": "Ada", "username": "ada", "email": "ada@example.com" });
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![
            Root::new("file:///srv").with_name("srv"),
        ]))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        note(
            "progress",
            json!({ "progress": params.progress, "total": params.total }),
        );
        self.progress.notify_one();
    }
}

struct Client {
    mcp: RunningService<RoleClient, Answers>,
    names: Vec<String>,
}

fn params(name: &str, arguments: Value) -> CallToolRequestParams {
    let params = CallToolRequestParams::new(name.to_owned());
    params.with_arguments(arguments.as_object().cloned().unwrap_or_default())
}

fn failed(error: ServiceError) -> String {
    error.to_string()
}

fn text_of(result: &CallToolResult) -> String {
    json!(result)["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
        .into()
}

impl Client {
    async fn call(
        &self,
        label: &str,
        name: &str,
        arguments: Value,
        required: bool,
    ) -> Option<CallToolResult> {
        if !self.names.iter().any(|known| known == name) {
            return None;
        }
        let result = self
            .mcp
            .call_tool(params(name, arguments))
            .await
            .map_err(failed);
        let result = match result {
            Ok(result) if result.is_error == Some(true) && name != "fail" => Err(text_of(&result)),
            result => result,
        };
        tell(label, required, result)
    }

    async fn lists(&mut self) {
        let listed = tell(
            "tools/list",
            true,
            self.mcp.list_tools(None).await.map_err(failed),
        );
        self.names = listed
            .into_iter()
            .flat_map(|list| list.tools)
            .map(|tool| tool.name.into())
            .collect();
        tell(
            "resources/list",
            true,
            self.mcp.list_resources(None).await.map_err(failed),
        );
        tell(
            "resources/templates/list",
            true,
            self.mcp.list_resource_templates(None).await.map_err(failed),
        );
        tell(
            "prompts/list",
            true,
            self.mcp.list_prompts(None).await.map_err(failed),
        );
    }

    async fn calls(&self, modern: bool, everything: bool) {
        let large = "ä☃𝄞\"\\ ".repeat(20_000);
        let said = |text: &str| json!({ if everything { "message" } else { "text" }: text });
        self.call("echo", "echo", said("héllo ☃ 日本"), true).await;
        if let Some(result) = self.call("echo large", "echo", said(&large), true).await {
            tell(
                "it came back whole",
                true,
                if text_of(&result).contains(&large) {
                    Ok(())
                } else {
                    Err("it did not".into())
                },
            );
        }
        let many = (0..20).map(|i| self.mcp.call_tool(params("echo", said(&format!("n{i}")))));
        let many = try_join_all(many).await.map_err(failed);
        let many = many.map(|many| many.iter().map(text_of).collect::<Vec<_>>());
        tell("echo, 20 at once", true, many);
        let mirrored =
            json!({ "region": "us-west1", "priority": 42, "dry": false, "query": "select 1" });
        self.call("mirrored arguments", "region_query", mirrored, true)
            .await;
        self.call(
            "mirrored, not ASCII",
            "region_query",
            json!({ "region": " 日本 ", "query": "x" }),
            true,
        )
        .await;
        self.call(
            "mirrored, like the sentinel",
            "region_query",
            json!({ "region": "=?base64?bm90?=", "query": "x" }),
            true,
        )
        .await;
        self.call("progress", "slow_progress", json!({}), true)
            .await;
        let slow = json!({ "duration": 0.2, "steps": 2 });
        self.call(
            "progress (everything)",
            "trigger-long-running-operation",
            slow,
            true,
        )
        .await;
        self.call("input required", "ask_name", json!({}), modern)
            .await;
        if !modern {
            self.call(
                "elicitation",
                "test_elicitation",
                json!({ "message": "who?" }),
                true,
            )
            .await;
        }
        self.call("roots (everything)", "get-roots-list", json!({}), true)
            .await;
        self.call("failing tool", "fail", json!({}), true).await;
        tell(
            "unknown tool",
            false,
            self.mcp
                .call_tool(params("no_such_tool", json!({})))
                .await
                .map_err(failed),
        );
    }

    async fn reads(&self, everything: bool) {
        let own = ["config://app", "greet://bob", "greet://日本"];
        for uri in if everything {
            &["demo://resource/static/document/architecture.md"][..]
        } else {
            &own[..]
        } {
            let read = self
                .mcp
                .read_resource(ReadResourceRequestParams::new(*uri))
                .await;
            tell(&format!("read {uri}"), true, read.map_err(failed));
        }
        let read = self
            .mcp
            .read_resource(ReadResourceRequestParams::new("nope://日本"))
            .await;
        tell("read nope://日本", false, read.map_err(failed));
        let (name, arguments) = if everything {
            ("args-prompt", json!({ "city": "Zürich" }))
        } else {
            ("simple", json!({ "who": "Ada" }))
        };
        let wanted = GetPromptRequestParams::new(name)
            .with_arguments(arguments.as_object().cloned().unwrap_or_default());
        tell(
            "prompts/get",
            true,
            self.mcp.get_prompt(wanted).await.map_err(failed),
        );
    }

    async fn listen(&self) -> Result<(), String> {
        let filter = SubscriptionFilter::builder()
            .tools_list_changed()
            .resource_subscriptions(["config://app"])
            .build();
        let mut subscription = self.mcp.listen(filter).await.map_err(failed)?;
        note("honored", json!(subscription.acknowledged()));
        for tool in ["flip_tools", "touch"] {
            self.mcp
                .call_tool(params(tool, json!({})))
                .await
                .map_err(failed)?;
            let event = tokio::time::timeout(Duration::from_secs(5), subscription.next()).await;
            note(
                "event",
                json!(event.map_err(|_| "no event came")?.map_err(failed)?),
            );
        }
        subscription.cancel().await.map_err(failed)
    }

    /// Gives a call up after its first progress notification; the server must hear of it.
    async fn cancel(&self) -> Result<(), String> {
        let request =
            ClientRequest::CallToolRequest(CallToolRequest::new(params("hang", json!({}))));
        // What earlier calls reported must not be taken for this one's.
        let _ = tokio::time::timeout(Duration::ZERO, self.mcp.service().progress.notified()).await;
        let call = self
            .mcp
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
            .map_err(failed)?;
        self.mcp.service().progress.notified().await;
        call.cancel(Some("enough".into())).await.map_err(failed)?;
        for _ in 0..40 {
            let seen = self
                .mcp
                .call_tool(params("seen", json!({})))
                .await
                .map_err(failed)?;
            if serde_json::from_str::<Value>(&text_of(&seen))
                .is_ok_and(|seen| seen["cancelled"] == 1)
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("it did not come".into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let url = std::env::args().nth(1).expect("the URL of a server");
    let everything = std::env::args().nth(2).as_deref() == Some("everything");
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let lifecycle = match std::env::var("MODE").as_deref() {
        Ok("legacy") => ClientLifecycleMode::Initialize,
        Ok("auto") => ClientLifecycleMode::Auto {
            preferred_versions,
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        },
        _ => ClientLifecycleMode::Discover { preferred_versions },
    };
    let transport = StreamableHttpClientTransport::from_uri(url);
    let mcp = match Answers::default()
        .serve_with_lifecycle(transport, lifecycle)
        .await
    {
        Ok(mcp) => mcp,
        Err(error) => {
            tell("connect", true, Err::<(), _>(error.to_string()));
            return;
        }
    };
    let info = mcp.peer_info();
    let version = info
        .map(|info| info.protocol_version.to_string())
        .unwrap_or_default();
    tell("connect", true, Ok(&version));
    let modern = version.as_str() >= "2026";
    let mut client = Client {
        mcp,
        names: Vec::new(),
    };
    client.lists().await;
    client.calls(modern, everything).await;
    client.reads(everything).await;
    if modern {
        tell("listen", true, client.listen().await);
    }
    if client.names.iter().any(|name| name == "hang") {
        tell(
            "the server heard of the cancellation",
            true,
            client.cancel().await,
        );
    }
    let ended = client.mcp.cancel().await;
    tell(
        "close",
        true,
        ended.map(|_| ()).map_err(|error| error.to_string()),
    );
}
