//! A modern and legacy MCP server on rmcp; legacy clients get a session.
//!
//! It listens on a free port of 127.0.0.1 and says which on standard error.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext, SubscriptionSink};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What the tools change and count; a client reads it back to learn what really arrived here.
#[derive(Default)]
struct State {
    bonus: bool,
    touched: u64,
    cancelled: u64,
    subscribers: Vec<SubscriptionSink>,
}

#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

type Answer<T> = Result<T, ErrorData>;

/// The types of rmcp are read from the JSON that they stand for: it is shorter, and it is what goes over the wire.
fn from<T: serde::de::DeserializeOwned>(value: Value) -> Answer<T> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn text(value: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(value.into())]).into()
}

fn asked(properties: Value) -> Value {
    json!({ "type": "object", "properties": properties })
}

impl Server {
    fn tools(&self) -> Vec<Tool> {
        let mirrored = asked(json!({
            "region": { "type": "string", "x-mcp-header": "Region" },
            "priority": { "type": "integer", "x-mcp-header": "Priority" },
            "dry": { "type": "boolean", "x-mcp-header": "Dry-Run" },
            "query": { "type": "string" },
        }));
        let one = |name: &str| asked(json!({ name: { "type": "string" } }));
        let mut tools = vec![
            ("echo", "Gives its text back.", one("text")),
            (
                "region_query",
                "A tool whose arguments are mirrored into headers.",
                mirrored,
            ),
            (
                "slow_progress",
                "Three progress notifications, then a result.",
                asked(json!({})),
            ),
            (
                "hang",
                "Reports progress once, then waits until it is cancelled.",
                asked(json!({})),
            ),
            ("fail", "Always fails.", asked(json!({}))),
            (
                "flip_tools",
                "Adds or removes one tool and says so to subscribers.",
                asked(json!({})),
            ),
            (
                "touch",
                "Changes config://app and says so to subscribers.",
                asked(json!({})),
            ),
            (
                "seen",
                "What this process has counted so far.",
                asked(json!({})),
            ),
            ("ask_name", "Needs a name from the user.", asked(json!({}))),
            ("test_elicitation", "Asks the user.", one("message")),
        ];
        if self.0.lock().unwrap().bonus {
            tools.push(("bonus", "Here after flip_tools.", asked(json!({}))));
        }
        let tools = tools.into_iter().map(|(name, description, schema)| {
            from(json!({ "name": name, "description": description, "inputSchema": schema }))
                .unwrap()
        });
        tools.collect()
    }

    async fn tell<F: Future>(&self, notify: impl Fn(SubscriptionSink) -> F) {
        let subscribers = self.0.lock().unwrap().subscribers.clone();
        for subscriber in subscribers {
            notify(subscriber).await;
        }
    }
}

async fn progress(context: &RequestContext<RoleServer>, done: f64, total: f64) {
    if let Some(token) = context.meta.get_progress_token() {
        let report = ProgressNotificationParam::new(token, done).with_total(total);
        let _ = context.peer.notify_progress(report).await;
    }
}

/// Legacy servers ask the client by a request of their own, on the stream of the call.
async fn elicit(context: &RequestContext<RoleServer>, message: Value) -> Answer<CallToolResponse> {
    let schema = asked(json!({ "username": { "type": "string" }, "email": { "type": "string" } }));
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.as_str().unwrap_or_default().into(),
        requested_schema: from(schema)?,
    };
    match context.peer.create_elicitation(params).await {
        Ok(got) => Ok(text(format!("User response: {}", json!(got)))),
        Err(error) => Err(ErrorData::internal_error(error.to_string(), None)),
    }
}

/// Modern servers ask by answering `input_required`; the client repeats the call with what it learnt.
fn ask_name(request: &CallToolRequestParams) -> Answer<CallToolResponse> {
    let responses = request.input_responses.as_ref();
    if let Some(name) = responses.and_then(|got| got.get("user_name")?["content"]["name"].as_str())
    {
        return Ok(text(format!("Hello, {name}!")));
    }
    let schema = asked(json!({ "name": { "type": "string" } }));
    let params =
        json!({ "mode": "form", "message": "What is your name?", "requestedSchema": schema });
    let asked = json!({ "user_name": { "method": "elicitation/create", "params": params } });
    Ok(InputRequiredResult::new(Some(from(asked)?), None).into())
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = json!({
            "tools": { "listChanged": true }, "resources": { "subscribe": true, "listChanged": true },
            "prompts": {}, "completions": {},
        });
        ServerConfig::new(from(capabilities).unwrap())
            .with_server_info(Implementation::new("rmcp-server", "1.0.0"))
            .with_instructions("A server for the interop tests.")
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Answer<ListToolsResult> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    // Without this the headers that mirror arguments are not looked at.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Answer<CallToolResponse> {
        let arguments = json!(request.arguments.clone().unwrap_or_default());
        match request.name.as_ref() {
            "echo" => Ok(text(arguments["text"].as_str().unwrap_or_default())),
            "region_query" => Ok(text(arguments.to_string())),
            "slow_progress" => {
                for done in [1.0, 2.0, 3.0] {
                    progress(&context, done, 3.0).await;
                    tokio::time::sleep(Duration::from_millis(60)).await;
                }
                Ok(text("done"))
            }
            "hang" => {
                progress(&context, 1.0, 2.0).await;
                tokio::select! {
                    () = context.ct.cancelled() => self.0.lock().unwrap().cancelled += 1,
                    () = tokio::time::sleep(Duration::from_secs(20)) => {}
                }
                Ok(text("released"))
            }
            "fail" => Ok(CallToolResult::error(vec![ContentBlock::text("boom")]).into()),
            "flip_tools" => {
                let bonus = {
                    let mut state = self.0.lock().unwrap();
                    state.bonus = !state.bonus;
                    state.bonus
                };
                self.tell(|to| async move { to.notify_tool_list_changed().await })
                    .await;
                Ok(text(bonus.to_string()))
            }
            "touch" => {
                let touched = {
                    let mut state = self.0.lock().unwrap();
                    state.touched += 1;
                    state.touched
                };
                self.tell(|to| async move { to.notify_resource_updated("config://app").await })
                    .await;
                Ok(text(touched.to_string()))
            }
            "seen" => {
                let state = self.0.lock().unwrap();
                let counted = json!({ "bonus": state.bonus, "touched": state.touched, "cancelled": state.cancelled });
                Ok(text(counted.to_string()))
            }
            "ask_name" => ask_name(&request),
            "test_elicitation" => elicit(&context, arguments["message"].clone()).await,
            name => Err(ErrorData::invalid_params(
                format!("Unknown tool: {name}"),
                None,
            )),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Answer<ListResourcesResult> {
        let one =
            json!({ "uri": "config://app", "name": "app-config", "mimeType": "application/json" });
        Ok(ListResourcesResult::with_all_items(vec![from(one)?]))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Answer<ListResourceTemplatesResult> {
        let one = json!({ "uriTemplate": "greet://{name}", "name": "greeting", "mimeType": "text/plain" });
        Ok(ListResourceTemplatesResult::with_all_items(vec![from(
            one,
        )?]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Answer<ReadResourceResponse> {
        let uri = request.uri.as_str();
        let contents = if uri == "config://app" {
            let touched = self.0.lock().unwrap().touched;
            json!({ "uri": uri, "mimeType": "application/json", "text": json!({ "touched": touched }).to_string() })
        } else if let Some(name) = uri.strip_prefix("greet://") {
            json!({ "uri": uri, "mimeType": "text/plain", "text": format!("hi {name}") })
        } else if uri == "test://static-binary" {
            json!({ "uri": uri, "mimeType": "application/octet-stream", "blob": "AAEC/w==" })
        } else {
            return Err(ErrorData::resource_not_found(
                "no such resource",
                Some(json!({ "uri": uri })),
            ));
        };
        Ok(ReadResourceResult::new(vec![from(contents)?]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Answer<ListPromptsResult> {
        let one = json!({ "name": "simple", "description": "Says hi.", "arguments": [{ "name": "who", "required": true }] });
        Ok(ListPromptsResult::with_all_items(vec![from(one)?]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Answer<GetPromptResponse> {
        let arguments = json!(request.arguments);
        let said = format!(
            "Say hi to {}",
            arguments["who"].as_str().unwrap_or_default()
        );
        let messages = json!([{ "role": "user", "content": { "type": "text", "text": said } }]);
        Ok(GetPromptResult::new(from(messages)?).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Answer<CompleteResult> {
        let known = ["paris", "park", "party"].into_iter();
        let values: Vec<_> = known
            .filter(|word| word.starts_with(&request.argument.value))
            .collect();
        Ok(CompleteResult::new(from(json!({ "values": values }))?))
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Answer<()> {
        self.0
            .lock()
            .unwrap()
            .subscribers
            .push(context.sink().clone());
        context.cancelled().await;
        self.0
            .lock()
            .unwrap()
            .subscribers
            .retain(|sink| sink.id() != context.sink().id());
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let server = Server::default();
    let sessions: Arc<LocalSessionManager> = Arc::default();
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        sessions,
        StreamableHttpServerConfig::default(),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("listening on http://{}/mcp", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
