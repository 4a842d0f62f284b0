// A modern MCP server that reads the body and nothing else: it looks at no header and checks nothing.
// What it answers to is what a gateway let through. GET /received tells which messages reached it and
// with which Mcp-* headers, so that a test can see the cause and not only the answer.
// It listens on a free port of 127.0.0.1 and says which on standard error.
import { createServer } from 'node:http';

const SERVER_INFO = { 'io.modelcontextprotocol/serverInfo': { name: 'lenient-server', version: '1.0.0' } };
const hints = { ttlMs: 1000, cacheScope: 'public' };
const schema = { type: 'object', properties: { text: { type: 'string' }, region: { type: 'string', 'x-mcp-header': 'Region' } } };
const said = text => ({ content: [{ type: 'text', text }] });

const METHODS = {
  'server/discover': () => ({ supportedVersions: ['2026-07-28'], capabilities: { tools: {}, resources: {}, prompts: {} }, ...hints }),
  'tools/list': () => ({ tools: [{ name: 'echo', description: 'Gives its arguments back.', inputSchema: schema }], ...hints }),
  'tools/call': params => said(JSON.stringify(params?.arguments ?? {})),
  'resources/list': () => ({ resources: [{ uri: 'lenient://one', name: 'one', description: 'One.' }], ...hints }),
  'resources/templates/list': () => ({ resourceTemplates: [], ...hints }),
  'resources/read': params => ({ contents: [{ uri: params?.uri, text: 'one' }], ...hints }),
  'prompts/list': () => ({ prompts: [{ name: 'one', description: 'One.' }], ...hints }),
  'prompts/get': params => ({ messages: [{ role: 'user', content: { type: 'text', text: params?.name } }] }),
};

const received = [];
function answer({ id, method, params }) {
  if (!METHODS[method]) return { jsonrpc: '2.0', id, error: { code: -32601, message: `Method not found: ${method}` } };
  return { jsonrpc: '2.0', id, result: { resultType: 'complete', ...METHODS[method](params), _meta: SERVER_INFO } };
}

const http = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  response.setHeader('content-type', 'application/json');
  if (request.method === 'GET') return response.end(JSON.stringify(received));
  const body = JSON.parse(Buffer.concat(parts).toString());
  const lines = [];
  for (let i = 0; i < request.rawHeaders.length; i += 2)
    if (/^mcp-/i.test(request.rawHeaders[i])) lines.push([request.rawHeaders[i].toLowerCase(), request.rawHeaders[i + 1]]);
  received.push({ headers: lines, body });
  if (body.id === undefined) return response.writeHead(202).end();
  response.end(JSON.stringify(answer(body)));
});
http.listen(0, '127.0.0.1', () => console.error(`listening on http://127.0.0.1:${http.address().port}/mcp`));
