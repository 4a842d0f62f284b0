// A modern and legacy MCP server on the npm packages @modelcontextprotocol/server and /node.
// LEGACY=stateless (default): a legacy request is answered by itself, GET and DELETE are refused.
// LEGACY=session: legacy clients get a session, a GET stream and resumption.
// It listens on a free port of 127.0.0.1 and says which on standard error.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import {
  localhostHostValidation, localhostOriginValidation, NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest,
} from '@modelcontextprotocol/node';
import {
  acceptedContent, completable, createMcpHandler, createRequestStateCodec, fromJsonSchema, inputRequired, inputResponse,
  isLegacyRequest, McpServer, ResourceTemplate,
} from '@modelcontextprotocol/server';
import * as z from 'zod';

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC';
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=';

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
const text = value => ({ content: [{ type: 'text', text: value }] });
const user = content => ({ role: 'user', content });

// What the tools change and count; a client reads it back to learn what really arrived here.
const state = { bonus: false, touched: 0, cancelled: 0 };
let notify;

const sealed = createRequestStateCodec({ key: new Uint8Array(32).fill(7) });
const ask = (message, properties) =>
  inputRequired.elicit({ message, requestedSchema: { type: 'object', properties, required: Object.keys(properties) } });
const askName = () => ask('What is your name?', { name: { type: 'string' } });
const askModel = prompt => inputRequired.createMessage({ messages: [user({ type: 'text', text: prompt })], maxTokens: 100 });

function everydayTools(server) {
  const tool = (name, config, run) => server.registerTool(name, config, run);
  tool('echo', { description: 'Gives its text back.', inputSchema: z.object({ text: z.string() }) }, async ({ text: t }) => text(t));
  tool('region_query', {
    description: 'A tool whose arguments are mirrored into headers.',
    inputSchema: fromJsonSchema({
      type: 'object',
      properties: {
        region: { type: 'string', 'x-mcp-header': 'Region' },
        priority: { type: 'integer', 'x-mcp-header': 'Priority' },
        dry: { type: 'boolean', 'x-mcp-header': 'Dry-Run' },
        query: { type: 'string' },
      },
      required: ['region', 'query'],
    }),
  }, async args => text(JSON.stringify(args)));
  tool('slow_progress', { description: 'Three progress notifications, then a result.' }, async ctx => {
    for (let i = 1; i <= 3; i++) { await progress(ctx, i, 3); await sleep(60); }
    return text('done');
  });
  tool('hang', { description: 'Reports progress once, then waits until it is cancelled.' }, async ctx => {
    await progress(ctx, 1, 2);
    await new Promise(resolve => {
      ctx.mcpReq.signal.addEventListener('abort', () => { state.cancelled++; resolve(); });
      setTimeout(resolve, 20_000).unref();
    });
    return text('released');
  });
  tool('fail', { description: 'Always fails.' }, async () => { throw new Error('boom'); });
  tool('flip_tools', { description: 'Adds or removes one tool and says so to subscribers.' }, async () => {
    state.bonus = !state.bonus; notify.toolsChanged();
    return text(String(state.bonus));
  });
  tool('touch', { description: 'Changes config://app and says so to subscribers.' }, async () => {
    state.touched++; notify.resourceUpdated('config://app');
    return text(String(state.touched));
  });
  tool('seen', { description: 'What this process has counted so far.' }, async () => text(JSON.stringify(state)));
  if (state.bonus) tool('bonus', { description: 'Here after flip_tools.' }, async () => text('bonus'));
}

async function progress(ctx, done, total) {
  const progressToken = ctx.mcpReq._meta?.progressToken;
  if (progressToken === undefined) return;
  await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: done, total } });
}

// The tools and prompts that the scenarios of the conformance suite call by name.
function conformanceTools(server) {
  const tool = (name, run, inputSchema) => server.registerTool(name, { description: `For the scenario that calls ${name}.`, ...(inputSchema && { inputSchema }) }, run);
  tool('test_simple_text', async () => text('This is a simple text response for testing.'));
  tool('test_image_content', async () => ({ content: [{ type: 'image', data: PNG, mimeType: 'image/png' }] }));
  tool('test_audio_content', async () => ({ content: [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }] }));
  tool('test_embedded_resource', async () => ({ content: [
    { type: 'resource', resource: { uri: 'test://embedded-resource', mimeType: 'text/plain', text: 'This is an embedded resource content.' } }] }));
  tool('test_multiple_content_types', async () => ({ content: [
    { type: 'text', text: 'Multiple content types test:' },
    { type: 'image', data: PNG, mimeType: 'image/png' },
    { type: 'resource', resource: { uri: 'test://mixed-content-resource', mimeType: 'application/json', text: '{"test":"data","value":123}' } }] }));
  tool('test_tool_with_logging', async ctx => {
    for (const line of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) { await ctx.mcpReq.log('info', line); await sleep(50); }
    return text('Tool with logging executed successfully');
  });
  tool('test_logging_tool', async ctx => { await ctx.mcpReq.log('info', 'a line'); return text('logged'); });
  tool('test_error_handling', async () => { throw new Error('This tool intentionally returns an error for testing'); });
  tool('test_tool_with_progress', async ctx => {
    for (const done of [0, 50, 100]) { await progress(ctx, done, 100); await sleep(50); }
    return text('done');
  });
  tool('test_reconnection', async ctx => {
    await sleep(50); ctx.http?.closeSSE?.(); await sleep(150);
    return text('Reconnection test completed');
  });
  tool('test_trigger_tool_change', async () => { notify.toolsChanged(); return text('changed'); });
  tool('test_trigger_prompt_change', async () => { notify.promptsChanged(); return text('changed'); });
  const address = { $anchor: 'addressDef', type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } };
  tool('json_schema_2020_12_tool', async () => text('ok'), fromJsonSchema({
    $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object', $defs: { address },
    properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' }, contactMethod: { type: 'string', enum: ['phone', 'email'] }, phone: { type: 'string' }, email: { type: 'string' } },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] }, then: { required: ['phone'] }, else: { required: ['email'] },
    additionalProperties: false,
  }));
}

// Legacy servers ask the client by a request of their own. `send` puts it on the stream of the call; what the SDK offers
// beside it (elicitInput, requestSampling) takes the session's GET stream, and is lost where the call overtakes the GET.
function askingTools(server) {
  const asking = (name, message, properties, inputSchema) => server.registerTool(name, { description: 'Asks the user.', ...(inputSchema && { inputSchema }) }, async (...given) => {
    const ctx = given.at(-1);
    const params = { message: message ?? given[0].message, requestedSchema: { type: 'object', properties, required: [] } };
    const got = await ctx.mcpReq.send({ method: 'elicitation/create', params });
    return text(`Elicitation completed: action=${got.action}, content=${JSON.stringify(got.content ?? {})}`);
  });
  asking('test_elicitation', undefined, { username: { type: 'string' }, email: { type: 'string' } }, z.object({ message: z.string() }));
  asking('test_elicitation_sep1034_defaults', 'Defaults', {
    name: { type: 'string', default: 'John Doe' }, age: { type: 'integer', default: 30 }, score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' }, verified: { type: 'boolean', default: true } });
  const titled = (values, word) => values.map((v, i) => ({ const: v, title: `${['First', 'Second', 'Third'][i]} ${word}` }));
  asking('test_elicitation_sep1330_enums', 'Enums', {
    untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
    titledSingle: { type: 'string', oneOf: titled(['value1', 'value2', 'value3'], 'Option') },
    legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
    untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
    titledMulti: { type: 'array', items: { anyOf: titled(['value1', 'value2', 'value3'], 'Choice') } } });
  server.registerTool('test_sampling', { description: 'Asks the model.', inputSchema: z.object({ prompt: z.string() }) }, async ({ prompt }, ctx) => {
    const params = { messages: [user({ type: 'text', text: prompt })], maxTokens: 100 };
    const got = await ctx.mcpReq.send({ method: 'sampling/createMessage', params });
    return text(`LLM response: ${got.content.text}`);
  });
}

// Modern servers ask by answering `input_required`; the client repeats the call with what it learnt.
function inputRequiredTools(server) {
  const tool = (name, run) => server.registerTool(name, { description: 'Needs input from the client.' }, async ctx => run(ctx.mcpReq.inputResponses, ctx));
  const requests = (inputRequests, requestState) => inputRequired({ inputRequests, ...(requestState && { requestState }) });
  const name = got => acceptedContent(got, 'user_name', z.object({ name: z.string() }))?.name;
  for (const tools of ['ask_name', 'test_input_required_result_elicitation', 'test_streaming_elicitation'])
    tool(tools, async got => name(got) ? text(`Hello, ${name(got)}!`) : requests({ user_name: askName() }));
  tool('test_input_required_result_sampling', async got => {
    const answer = inputResponse(got, 'capital_question');
    return answer.kind === 'sampling' ? text(answer.result.content.text) : requests({ capital_question: askModel('What is the capital of France?') });
  });
  tool('test_input_required_result_list_roots', async got => {
    const answer = inputResponse(got, 'client_roots');
    return answer.kind === 'roots' ? text(`roots: ${answer.roots.map(r => r.uri).join(' ')}`) : requests({ client_roots: inputRequired.listRoots() });
  });
  for (const tools of ['test_input_required_result_request_state', 'test_input_required_result_tampered_state'])
    tool(tools, async (got, ctx) => acceptedContent(got, 'confirm') && ctx.mcpReq.requestState()?.round === 1
      ? text('state-ok')
      : requests({ confirm: ask('Please confirm', { ok: { type: 'boolean' } }) }, await sealed.mint({ round: 1 }, ctx)));
  tool('test_input_required_result_multiple_inputs', async (got, ctx) => ['user_name', 'greeting', 'client_roots'].every(k => got?.[k])
    ? text(`Hello, ${name(got)}!`)
    : requests({ user_name: askName(), greeting: askModel('Generate a greeting'), client_roots: inputRequired.listRoots() }, await sealed.mint({ round: 1 }, ctx)));
  tool('test_input_required_result_multi_round', async (got, ctx) => {
    const known = ctx.mcpReq.requestState() ?? {};
    if (!known.name) {
      const first = acceptedContent(got, 'step1')?.name;
      if (!first) return requests({ step1: ask('Step 1: What is your name?', { name: { type: 'string' } }) }, await sealed.mint({ round: 1 }, ctx));
      return requests({ step2: ask('Step 2: What is your favorite color?', { color: { type: 'string' } }) }, await sealed.mint({ round: 2, name: first }, ctx));
    }
    return text(`${known.name} likes ${acceptedContent(got, 'step2')?.color}`);
  });
  tool('test_input_required_result_capabilities', async (got, ctx) => {
    const able = ctx.mcpReq.envelope?.['io.modelcontextprotocol/clientCapabilities'] ?? {};
    if (got) return text('done');
    return requests({ ...(able.sampling && { question: askModel('A question') }), ...(able.elicitation && { user_name: askName() }) });
  });
}

function resourcesAndPrompts(server) {
  const resource = (name, uri, mimeType, read, cacheHint) => server.registerResource(name, uri, { description: `Resource ${name}.`, mimeType, ...(cacheHint && { cacheHint }) }, read);
  const one = (uri, mimeType, value) => ({ contents: [{ uri: String(uri), mimeType, ...value }] });
  resource('app-config', 'config://app', 'application/json', async uri => one(uri, 'application/json', { text: JSON.stringify({ touched: state.touched }) }), { ttlMs: 60_000, cacheScope: 'private' });
  resource('static-text', 'test://static-text', 'text/plain', async uri => one(uri, 'text/plain', { text: 'This is the content of the static text resource.' }));
  resource('static-binary', 'test://static-binary', 'image/png', async uri => one(uri, 'image/png', { blob: PNG }));
  resource('watched', 'test://watched-resource', 'text/plain', async uri => one(uri, 'text/plain', { text: String(state.touched) }));
  resource('greeting', new ResourceTemplate('greet://{name}', { list: undefined }), 'text/plain', async (uri, { name }) => one(uri, 'text/plain', { text: `hi ${name}` }));
  resource('data', new ResourceTemplate('test://template/{id}/data', { list: undefined }), 'application/json',
    async (uri, { id }) => one(uri, 'application/json', { text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) }));

  const prompt = (name, args, run) => server.registerPrompt(name, { description: `Prompt ${name}.`, ...(args && { argsSchema: z.object(args) }) }, run);
  const says = value => ({ messages: [user({ type: 'text', text: value })] });
  prompt('simple', { who: z.string() }, async ({ who }) => says(`Say hi to ${who}`));
  prompt('test_simple_prompt', undefined, async () => says('This is a simple prompt for testing.'));
  prompt('test_prompt_with_arguments',
    { arg1: completable(z.string(), v => ['paris', 'park', 'party'].filter(w => w.startsWith(v))), arg2: z.string() },
    async ({ arg1, arg2 }) => says(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`));
  prompt('test_prompt_with_embedded_resource', { resourceUri: z.string() }, async ({ resourceUri }) => ({ messages: [
    user({ type: 'resource', resource: { uri: resourceUri, mimeType: 'text/plain', text: 'Embedded resource content for testing.' } }),
    user({ type: 'text', text: 'Please process the embedded resource above.' })] }));
  prompt('test_prompt_with_image', undefined, async () => ({ messages: [
    user({ type: 'image', data: PNG, mimeType: 'image/png' }), user({ type: 'text', text: 'Please analyze the image above.' })] }));
  prompt('test_input_required_result_prompt', undefined, async ctx => {
    const got = acceptedContent(ctx.mcpReq.inputResponses, 'user_context');
    return got ? says(`In the context of ${got.context}`)
      : inputRequired({ inputRequests: { user_context: ask('What context should the prompt use?', { context: { type: 'string' } }) } });
  });
}

function build(ctx) {
  const list = { ttlMs: 30_000, cacheScope: 'public' };
  const server = new McpServer({ name: 'typescript-server', version: '1.0.0' }, {
    instructions: 'A server for the interop tests.',
    capabilities: { tools: { listChanged: true }, resources: { listChanged: true, subscribe: true }, prompts: { listChanged: true }, completions: {}, logging: {} },
    requestState: { verify: sealed.verify },
    cacheHints: { 'tools/list': list, 'prompts/list': list, 'resources/list': list, 'resources/templates/list': list, 'server/discover': list },
  });
  everydayTools(server); conformanceTools(server); resourcesAndPrompts(server); inputRequiredTools(server);
  if (ctx.era === 'legacy') askingTools(server);
  return server;
}

// Events of legacy sessions, kept so that a client that lost its stream can take it up again.
function eventStore() {
  const events = [];
  const streamOf = id => events.find(e => e.id === id)?.stream;
  return {
    async storeEvent(stream, message) { const id = `${stream}_${events.length}`; events.push({ id, stream, message }); return id; },
    async getStreamIdForEventId(id) { return streamOf(id); },
    async replayEventsAfter(last, { send }) {
      const stream = streamOf(last);
      for (const e of events.slice(events.findIndex(e => e.id === last) + 1))
        if (e.stream === stream && Object.keys(e.message).length) await send(e.id, e.message);
      return stream;
    },
  };
}

const sessions = new Map();
async function serveSession(request, response, body) {
  const known = sessions.get(request.headers['mcp-session-id']);
  if (known) return known.handleRequest(request, response, body);
  const transport = new NodeStreamableHTTPServerTransport({
    // The transport itself answers 404 to an id that it does not know.
    sessionIdGenerator: () => randomUUID(), eventStore: eventStore(), retryInterval: 50,
    onsessioninitialized: id => { sessions.set(id, transport); },
    onsessionclosed: id => { sessions.delete(id); },
  });
  if (request.headers['mcp-session-id']) {
    response.writeHead(404, { 'content-type': 'application/json' });
    return response.end('{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}');
  }
  const server = build({ era: 'legacy' });
  server.server.setRequestHandler('resources/subscribe', async () => ({}));
  server.server.setRequestHandler('resources/unsubscribe', async () => ({}));
  await server.connect(transport);
  return transport.handleRequest(request, response, body);
}

const withSessions = process.env.LEGACY === 'session';
const handler = createMcpHandler(build, { legacy: withSessions ? 'reject' : 'stateless', onerror: () => {} });
notify = handler.notify;
const modern = toNodeHandler(handler);
const validHost = localhostHostValidation(), validOrigin = localhostOriginValidation();

async function readJson(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  try { return JSON.parse(Buffer.concat(parts).toString()); } catch { return undefined; }
}

const http = createServer(async (request, response) => {
  if (!validHost(request, response) || !validOrigin(request, response)) return;
  if (!withSessions) return modern(request, response);
  const body = request.method === 'POST' ? await readJson(request) : undefined;
  const legacy = await isLegacyRequest(await toWebRequest(request, body), body);
  return legacy ? serveSession(request, response, body) : modern(request, response, body);
});
http.listen(0, '127.0.0.1', () => console.error(`listening on http://127.0.0.1:${http.address().port}/mcp`));
