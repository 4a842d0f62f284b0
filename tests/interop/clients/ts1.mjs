// The npm package @modelcontextprotocol/sdk 1.x, installed under the alias SDK. Usage: SDK=sdk-1-10 node ts1.mjs URL [everything]
import { cancel, everything, heard, note, step } from './steps.mjs';

const sdk = path => import(`${process.env.SDK}/${path}`);
const { Client } = await sdk('client/index.js');
const { StreamableHTTPClientTransport } = await sdk('client/streamableHttp.js');
const types = await sdk('types.js');

const client = new Client({ name: 'ts1', version: '1' }, { capabilities: { sampling: {}, elicitation: {}, roots: { listChanged: true } } });
const answer = (schema, run) => schema && client.setRequestHandler(schema, run);
answer(types.CreateMessageRequestSchema, async () => ({ model: 'm', role: 'assistant', content: { type: 'text', text: 'sampled' } }));
answer(types.ElicitRequestSchema, async () => ({ action: 'accept', content: { username: 'ada', email: 'ada@example.com', name: 'Ada' } }));
answer(types.ListRootsRequestSchema, async () => ({ roots: [{ uri: 'file:///srv', name: 'srv' }] }));
client.fallbackNotificationHandler = async n => note(n.method, n.params);

// Old versions of this package keep it to themselves which version of the protocol was agreed on.
let version;
const request = client.request.bind(client);
client.request = async (asked, ...more) => {
  const result = await request(asked, ...more);
  if (asked.method === 'initialize') version = result.protocolVersion;
  return result;
};

const transport = new StreamableHTTPClientTransport(new URL(process.argv[2]));
await step('connect', () => client.connect(transport));
await step('agreed', async () => ({ version, server: client.getServerVersion(), session: transport.sessionId !== undefined }));

const mcp = {
  tools: () => client.listTools(), resources: () => client.listResources(), templates: () => client.listResourceTemplates(), prompts: () => client.listPrompts(),
  call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
  read: uri => client.readResource({ uri }), prompt: (name, args) => client.getPrompt({ name, arguments: args }),
  complete: (name, argument, value) => client.complete({ ref: { type: 'ref/prompt', name }, argument: { name: argument, value } }),
  firstResource: process.argv[3] === 'everything' ? 'demo://resource/static/document/architecture.md' : undefined,
};
const { names } = await everything(mcp, { modern: false, sessions: true, asks: types.ElicitRequestSchema !== undefined });
await step('ping', () => client.ping());
await step('logging/setLevel', () => client.setLoggingLevel('debug'), { required: false });
await step('resources/subscribe', () => client.subscribeResource({ uri: mcp.firstResource ?? 'config://app' }), { required: false });
if (names.includes('hang')) await cancel(mcp, { required: true });
if (mcp.firstResource) await heard(['Roots updated', 'Received Subscribe']);
await step('session ended', () => transport.terminateSession());
await step('close', () => client.close());
process.exit(0);
