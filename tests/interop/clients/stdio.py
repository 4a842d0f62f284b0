"""Speaks MCP over the standard streams of a bridge. Usage: python stdio.py modern|legacy|everything URL COMMAND...

The bridge (mcp-remote) speaks Streamable HTTP to the URL. The transcript has the form that steps.mjs describes.
"""

import json
import queue
import subprocess
import sys
import threading
from typing import Any

offers, url, command = sys.argv[1], sys.argv[2], sys.argv[3:]
bridge = subprocess.Popen([*command, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
answers: dict[Any, queue.Queue] = {}
heard = {"notifications/subscriptions/acknowledged": threading.Event(), "notifications/tools/list_changed": threading.Event()}
meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "stdio", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


telling = threading.Lock()


def tell(line: dict[str, Any]) -> None:
    # Answers and notifications are told by two threads, and print writes a line and its end apart.
    with telling:
        print(json.dumps(line, ensure_ascii=False), flush=True)


def read() -> None:
    for line in bridge.stdout:
        message = json.loads(line)
        if "method" in message:
            tell({"note": message["method"], "value": message.get("params")})
            if message["method"] in heard:
                heard[message["method"]].set()
        elif message.get("id") in answers:
            answers[message["id"]].put(message)


threading.Thread(target=read, daemon=True).start()


def send(message: dict[str, Any]) -> None:
    bridge.stdin.write(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False) + "\n")
    bridge.stdin.flush()


def request(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    params = {**({"_meta": meta} if offers == "modern" else {}), **(params or {})}
    id = len(answers)
    answers[id] = queue.Queue()
    send({"id": id, "method": method, "params": params})
    return answers[id].get(timeout=20)


def step(name: str, method: str, params: dict[str, Any] | None = None, required: bool = True) -> None:
    try:
        answer = request(method, params)
        value, ok = answer.get("result", answer.get("error")), "result" in answer
    except queue.Empty:
        value, ok = "no answer came", False
    tell({"step": name, "ok": ok, "required": required, "value": value})


if offers == "modern":
    step("server/discover", "server/discover")
else:
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "stdio", "version": "1"}}
    step("initialize", "initialize", about)
    send({"method": "notifications/initialized"})
step("tools/list", "tools/list")
step("echo", "tools/call", {"name": "echo", "arguments": {"message" if offers == "everything" else "text": "héllo ☃"}})
# This bridge mirrors no argument into a header, so that a modern server refuses the call.
step("mirrored arguments", "tools/call", {"name": "region_query", "arguments": {"region": "eu", "query": "x"}}, required=False)
token = {"_meta": {**(meta if offers == "modern" else {}), "progressToken": "p-1"}}
step("progress", "tools/call", {"name": "slow_progress", "arguments": {}, **token}, required=False)
step("resources/list", "resources/list")
for uri in ["config://app", "greet://日本"]:
    step(f"read {uri}", "resources/read", {"uri": uri}, required=False)
step("unknown method", "no/such", required=False)
if offers == "modern":
    wanted = {"_meta": meta, "notifications": {"toolsListChanged": True}}
    send({"id": "sub", "method": "subscriptions/listen", "params": wanted})
    tell({"step": "listen", "ok": heard["notifications/subscriptions/acknowledged"].wait(10), "required": True, "value": None})
    step("flip_tools", "tools/call", {"name": "flip_tools", "arguments": {}})
    # It comes on the stream of the subscription, whenever the server likes; where it does not come, the transcripts show it.
    heard["notifications/tools/list_changed"].wait(10)
    step("tools/list after the change", "tools/list")
else:
    step("ping", "ping")
bridge.stdin.close()
try:
    bridge.wait(5)
except subprocess.TimeoutExpired:
    bridge.kill()
tell({"note": "closed", "value": True})
