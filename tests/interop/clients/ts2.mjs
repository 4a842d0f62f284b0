// The npm package @modelcontextprotocol/client 2.x. Usage: MODE=pin|auto|legacy node ts2.mjs URL [sessions]
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { cancel, everything, note, step, until } from './steps.mjs';

const mode = process.env.MODE === 'pin' ? { pin: '2026-07-28' } : process.env.MODE;
const client = new Client({ name: 'ts2', version: '2.4.0' }, {
  versionNegotiation: { mode }, capabilities: { elicitation: {}, sampling: {}, roots: { listChanged: true } } });
client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { name: 'Ada', username: 'ada', email: 'ada@example.com' } }));
client.setRequestHandler('sampling/createMessage', async () => ({ model: 'm', role: 'assistant', content: { type: 'text', text: 'sampled' } }));
client.setRequestHandler('roots/list', async () => ({ roots: [{ uri: 'file:///srv', name: 'srv' }] }));
const notes = [];
for (const kind of ['notifications/tools/list_changed', 'notifications/resources/updated'])
  client.setNotificationHandler(kind, n => { notes.push(n.method); note(n.method, n.params); });

const transport = new StreamableHTTPClientTransport(new URL(process.argv[2]));
await step('connect', () => client.connect(transport));
const modern = client.getProtocolEra() === 'modern';
const sessions = !modern && process.argv[3] === 'sessions';
await step('agreed', async () => ({ era: client.getProtocolEra(), version: client.getNegotiatedProtocolVersion(), session: transport.sessionId !== undefined }));

const mcp = {
  tools: () => client.listTools(), resources: () => client.listResources(), templates: () => client.listResourceTemplates(), prompts: () => client.listPrompts(),
  call: (name, args, options) => client.callTool({ name, arguments: args }, options),
  read: uri => client.readResource({ uri }), prompt: (name, args) => client.getPrompt({ name, arguments: args }),
  complete: (name, argument, value) => client.complete({ ref: { type: 'ref/prompt', name }, argument: { name: argument, value } }),
  firstResource: process.argv[3] === 'everything' ? 'demo://resource/static/document/architecture.md' : undefined,
};
const { names, call } = await everything(mcp, { modern, sessions });

// Not every server on a modern SDK knows subscriptions; one that does not must say so through the gateway as it does directly.
const required = names.includes('flip_tools');
if (modern) {
  let subscription;
  await step('listen', async () => {
    subscription = await client.listen({ toolsListChanged: true, resourceSubscriptions: ['config://app'] });
    return subscription.honoredFilter;
  }, { required });
  if (required) {
    await call('flip_tools', 'flip_tools', {});
    await call('touch', 'touch', {});
    await step('both notifications came', () => until(() => notes.includes('notifications/tools/list_changed') && notes.includes('notifications/resources/updated')));
    await step('listen closed', () => subscription.close());
  }
} else {
  await step('ping', () => client.ping());
  await step('logging/setLevel', () => client.setLoggingLevel('debug'), { required: false });
  await step('resources/subscribe', () => client.subscribeResource({ uri: mcp.firstResource ?? 'config://app' }), { required: false });
}
if (names.includes('hang')) await cancel(mcp, { required: modern || sessions });
if (!modern && transport.sessionId) await step('session ended', () => transport.terminateSession());
await step('close', () => client.close());
process.exit(0);
