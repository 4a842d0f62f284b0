// What a TypeScript client does in these tests, whichever SDK it is built on: everything that the server offers.
// A transcript is written to standard output, one JSON object a line:
//   {"step": name, "ok": true|false, "required": true|false, "value": …}   in the order of the steps
//   {"note": kind, "value": …}                                             what the server sent on its own
import { createHash } from 'node:crypto';

const write = line => process.stdout.write(JSON.stringify(line) + '\n');
const noted = [];
export function note(kind, value) {
  noted.push(JSON.stringify({ kind, value }));
  write({ note: kind, value });
}
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

// Long values are told by their length and digest, so that a transcript stays readable.
function brief(value) {
  const json = JSON.stringify(value) ?? 'null';
  return json.length <= 4000 ? JSON.parse(json) : { bytes: json.length, sha256: createHash('sha256').update(json).digest('hex') };
}

// A required step is one that must go well when nothing stands between the client and the server.
export async function step(name, run, { required = true } = {}) {
  try {
    const value = await run();
    write({ step: name, ok: true, required, value: brief(value) });
    return value;
  } catch (error) {
    write({ step: name, ok: false, required, value: brief({ code: error?.code, message: error?.message, data: error?.data }) });
  }
}

export async function until(check, tries = 40) {
  for (let i = 0; i < tries; i++) { if (await check()) return; await sleep(50); }
  throw new Error('it did not come');
}

// What a server sends of its own accord comes when it likes: before it ends, a client waits until there is a note with
// each of these words. Where one does not come at all, the transcripts show it.
export async function heard(words) {
  await until(() => words.every(word => noted.some(line => line.includes(word))), 100).catch(() => {});
}

const LARGE = 'ä☃𝄞"\\ '.repeat(20_000);
const textOf = result => result.content[0].text;

// `mcp` lists, reads, prompts, completes and calls (name, args, options). `modern` says which era was agreed on,
// `sessions` that the server keeps legacy sessions and so can ask the client, `asks` that the client knows elicitation.
export async function everything(mcp, { modern, sessions, asks = true }) {
  const said = value => mcp.firstResource ? { message: value } : { text: value };
  const listed = await step('tools/list', () => mcp.tools());
  const names = listed?.tools?.map(t => t.name) ?? [];
  await step('tools/list again', () => mcp.tools());
  await step('resources/list', () => mcp.resources());
  await step('resources/templates/list', () => mcp.templates());
  await step('prompts/list', () => mcp.prompts());
  const call = async (label, name, args, options, rules) => names.includes(name) && step(label, async () => {
    const result = await mcp.call(name, args, options);
    if (result.isError && name !== 'fail') throw new Error(textOf(result));
    return result;
  }, rules);

  await call('echo', 'echo', said('héllo ☃ 日本'));
  await call('echo large', 'echo', said(LARGE));
  await step('echo, 20 at once', () => Promise.all(Array.from({ length: 20 }, (_, i) => mcp.call('echo', said(`n${i}`)).then(textOf))));
  await call('mirrored arguments', 'region_query', { region: 'us-west1', priority: 42, dry: false, query: 'select 1' });
  await call('mirrored, not ASCII', 'region_query', { region: ' 日本 ', query: 'x' });
  await call('mirrored, like the sentinel', 'region_query', { region: '=?base64?bm90?=', query: 'x' });
  const onprogress = p => note('progress', p);
  await call('progress', 'slow_progress', {}, { onprogress });
  await call('progress (everything)', 'trigger-long-running-operation', { duration: 0.2, steps: 2 }, { onprogress });
  await call('input required', 'ask_name', {}, undefined, { required: modern });
  if (sessions) {
    await call('elicitation', 'test_elicitation', { message: 'who?' }, undefined, { required: asks });
    await call('sampling', 'test_sampling', { prompt: 'hi' });
  }
  await call('elicitation (everything)', 'trigger-elicitation-request', {}, undefined, { required: false });
  await call('sampling (everything)', 'trigger-sampling-request', { prompt: 'hi', maxTokens: 5 });
  await call('roots (everything)', 'get-roots-list', {});
  await call('resumed stream', 'test_reconnection', {});
  await call('image', 'test_image_content', {});
  await call('failing tool', 'fail', {});
  await step('unknown tool', () => mcp.call('no_such_tool', {}), { required: false });
  await step('tool with an odd name', () => mcp.call('outil_é', {}), { required: false });

  const first = mcp.firstResource;
  for (const uri of first ? [first] : ['config://app', 'greet://bob', 'greet://日本', 'test://static-binary'])
    await step(`read ${uri}`, () => mcp.read(uri));
  for (const uri of ['nope://x', 'nope://日本'])
    await step(`read ${uri}`, () => mcp.read(uri), { required: false });
  if (!first) {
    await step('prompts/get', () => mcp.prompt('simple', { who: 'Ada' }));
    await step('completion/complete', () => mcp.complete('test_prompt_with_arguments', 'arg1', 'pa'));
  } else {
    await step('prompts/get', () => mcp.prompt('args-prompt', { city: 'Zürich' }));
  }
  return { names, call };
}

// A call is given up after its first progress notification; the server must hear of it.
export async function cancel(mcp, { required }) {
  const abort = new AbortController();
  await step('cancelled call', () => mcp.call('hang', {}, { signal: abort.signal, onprogress: () => abort.abort('enough') }), { required: false });
  await step('the server heard of the cancellation', () => until(async () => JSON.parse(textOf(await mcp.call('seen', {}))).cancelled === 1, required ? 40 : 4), { required });
}
