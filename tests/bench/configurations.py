"""How each program is configured for a row: nginx as upstream and as proxy, haproxy, weirgate."""

from dataclasses import dataclass
from pathlib import Path

from rows import LIST_ANSWER, LIST_TTL_MS, SMALL_ANSWER, Row

# nginx and haproxy need a number: the first is enough for all rows but the one with thousands of
# streams, which needs two connections for each.
CONNECTIONS = 4096
CONNECTIONS_STREAMS = 16384


@dataclass(frozen=True)
class Place:
    """Where a program runs, and what it stands before."""

    directory: Path
    port: int
    upstream: str
    certificate: Path
    key: Path


# A static file is no answer to a POST, but that of an error that is none may be one. The log of lists
# has a line for each that a proxy asked for at a path of its own: those that are to keep them do.
UPSTREAM = """
log_format lists '$request_uri';
map $request_uri $is_counted {{ default 1; /mcp 0; }}
server {{
    listen 127.0.0.1:{port};
    default_type application/json;
    location / {{
        if ($http_mcp_method = "tools/list") {{ rewrite ^ /tools-list last; }}
        return 200 '{answer}';
    }}
    location = /tools-list {{
        internal;
        alias {directory}/tools-list;
        error_page 405 =200 /tools-list;
        access_log {directory}/lists.log lists if=$is_counted;
    }}
}}
"""

# Small bodies are read whole before they are sent on (the default of proxy_request_buffering), as
# they are by anything that validates them. The log has what an operator would want of each call.
NGINX_PROXY = """
log_format json escape=json '{{"time":"$time_iso8601","client":"$remote_addr","method":"$request_method",'
    '"path":"$uri","status":$status,"mcp_method":"$http_mcp_method","mcp_name":"$http_mcp_name",'
    '"request_bytes":$request_length,"response_bytes":$bytes_sent,"seconds":$request_time,'
    '"upstream":"$upstream_addr","upstream_status":"$upstream_status","upstream_seconds":"$upstream_response_time"}}';
upstream bench {{
    server {upstream};
    keepalive 256;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
}}
server {{
    listen 127.0.0.1:{port}{listen};
    {extra}
    access_log {log} json;
    location / {{
        proxy_pass http://bench;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        {buffering}
        proxy_read_timeout 1h;
    }}
}}
"""

# The keep-alive limits are high so that no connection is opened anew while we measure.
NGINX = """
{user}
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log warn;
events {{ worker_connections {connections}; }}
http {{
    access_log off;
    client_body_temp_path {directory}/client_body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    tcp_nodelay on;
    {server}
}}
"""


def nginx_upstream(directory: Path, port: int) -> str:
    """A server that answers every request at once: with a list of tools where that is asked for, else as to the small call."""
    (directory / "tools-list").write_text(LIST_ANSWER.replace("@", str(LIST_TTL_MS)))
    return UPSTREAM.format(directory=directory, port=port, answer=SMALL_ANSWER)


def nginx_proxy(place: Place, row: Row, log: Path) -> str:
    """nginx as a proxy for the row's requests."""
    # Newer versions have a directive `http2`, and take this with a warning.
    listen = (" ssl" if row.tls else "") + (" http2" if row.http2 else "")
    extra = []
    if row.tls:
        extra += [f"ssl_certificate {place.certificate};", f"ssl_certificate_key {place.key};", "ssl_protocols TLSv1.3;"]
    if row.kind == "upload":
        extra += ["client_max_body_size 0;", "proxy_request_buffering off;"]
    # Each is best at what it is set to here: long answers go through buffers, those of few bytes and streams at once.
    buffering = "" if row.kind in ("lists", "pages") else "proxy_buffering off;"
    return NGINX_PROXY.format(
        port=place.port, upstream=place.upstream, listen=listen, extra=" ".join(extra), log=log, buffering=buffering
    )


def nginx(directory: Path, user: str, server: str, row: Row) -> str:
    """A whole configuration around `server`."""
    connections = CONNECTIONS_STREAMS if row.kind == "streams" else CONNECTIONS
    return NGINX.format(directory=directory, user=user, server=server, connections=connections)


# It streams bodies of any size; its log goes to standard output, which is a file here.
HAPROXY = """
global
    nbthread 1
    maxconn {connections}
    log stdout len 4096 format raw local0 info
defaults
    mode http
    log global
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    timeout http-keep-alive 1h
    http-reuse always
frontend bench
    bind 127.0.0.1:{port}{bind}
    http-request capture req.hdr(mcp-method) len 64
    http-request capture req.hdr(mcp-name) len 64
    log-format '{{"time":"%tr","client":"%ci","method":"%HM","path":"%HP","status":%ST,"mcp_method":"%[capture.req.hdr(0),json]","mcp_name":"%[capture.req.hdr(1),json]","request_bytes":%U,"response_bytes":%B,"ms":%Ta,"upstream":"%si:%sp","upstream_ms":%Tr}}'
    default_backend bench
backend bench
    server upstream {upstream}
"""


def haproxy(place: Place, row: Row) -> str:
    """haproxy as a proxy for the row's requests."""
    bind = ""
    if row.tls:
        # It reads certificate and key from one file.
        both = place.directory / "both.pem"
        both.write_text(place.certificate.read_text() + place.key.read_text())
        bind = f" ssl crt {both} ssl-min-ver TLSv1.3 alpn {'h2' if row.http2 else 'http/1.1'}"
    elif row.http2:
        bind = " proto h2"
    # Each connection needs a file for either side, and the system allows 20,000 on many machines.
    connections = 9000 if row.kind == "streams" else CONNECTIONS
    return HAPROXY.format(port=place.port, bind=bind, upstream=place.upstream, connections=connections)


POLICY = """
listen: {{ address: 127.0.0.1:0{listen} }}
status: {{ address: 127.0.0.1:0 }}
admin: {{ address: {admin} }}
log: {{ access: json }}
upstreams:
  bench: {{ url: http://{upstream}/{name} }}
routes:
  - name: bench
    path: /mcp
    upstream: bench
    protocol: {{ versions: ["2026-07-28", "2025-11-25", "2025-06-18"] }}
"""


def policy(place: Place, row: Row) -> str:
    """weirgate's policy for the row's requests, with all its defaults."""
    listen = f", tls: {{ cert: {place.certificate}, key: {place.key} }}" if row.tls else ""
    admin = "127.0.0.1:0" if row.kind in ("lists", "pages") else "off"
    return POLICY.format(upstream=place.upstream, name=place.directory.name, listen=listen, admin=admin)
