// What the clients' programs have in common.
//
//   node PROGRAM TASK PORT REDIS_PORT [PROTOCOL]
//
// A program prints what each step of its task came to, as a JSON object. clients_test.go says which
// steps there are; the other clients take the same ones.

export const [task, port, redisPort, protocol] = process.argv.slice(2);

const report = {};

// step takes a step and reports what it returns or throws.
export async function step(name, take) {
  try {
    report[name] = { value: await take() };
  } catch (e) {
    report[name] = { error: `${e.constructor.name}: ${e.message}` };
  }
}

// run runs the task that the command line names, and ends the program.
export async function run(tasks) {
  await tasks[task]();
  process.stdout.write(JSON.stringify(report), () => process.exit());
}

// refused is what the program sees of an error reply.
export async function refused(does) {
  try {
    return ['no error', await does];
  } catch (e) {
    return [e.constructor.name, e.message];
  }
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function until(condition) {
  while (!(await condition())) await sleep(5);
}

// connections are the worker's, taken from the answer to CLIENT LIST.
export function connections(list) {
  return list
    .split('\n')
    .map((line) => Object.fromEntries(line.trim().split(' ').map((field) => field.split('='))))
    .filter((connection) => connection.name === 'worker-1');
}

// turns are those of 16 tasks, each a read, a moment's thought and a write, which counts the task's turns in a
// document. Without a document of its own, a task shares one with others, and does it again when it is refused.
export async function turns(client, name, { shared }) {
  const acknowledged = {};
  const refusals = [];
  await Promise.all(range(16).map(async (i) => {
    const key = shared ? `turn:shared ${i % 8}` : `turn:${name} ${i}`;
    const task = `${name} ${port} ${i}`;
    for (let n = 0; n < (shared ? 62 : 125); ) {
      try {
        const doc = JSON.parse((await client.get(key)) ?? '{}');
        doc[task] = (doc[task] ?? 0) + 1;
        await sleep(1 + ((i + n) % 5));
        await client.set(key, JSON.stringify(doc));
        acknowledged[task] = ++n;
      } catch (e) {
        if (!/^(FENCED|LOCKED) /.test(e.message) || refusals.push(e.message) > 100_000) throw e;
      }
    }
  }));
  return [acknowledged, shared ? refusals.length > 0 : refusals];
}

// crowd has tasks that all take turns on one document, again and again until each has taken so many. Who is refused
// begins at once again.
export async function crowd(client, name, { tasks, turns, thinks }) {
  for (let round = 0; round < 40; round++) { // until now, a connection counts as one task
    await Promise.all(range(2).map(() => client.get('turn:known')));
    await Promise.allSettled(range(2).map(() => client.set('turn:known', '{}')));
  }
  const acknowledged = {};
  let refusals = 0;
  const began = Date.now();
  await Promise.all(range(tasks).map(async (i) => {
    const task = `${name} ${port} ${i}`;
    for (let n = 0; n < turns; ) {
      try {
        const doc = JSON.parse((await client.get('turn:crowd')) ?? '{}');
        doc[task] = (doc[task] ?? 0) + 1;
        await sleep(thinks[0] + Math.random() * (thinks[1] - thinks[0]));
        await client.set('turn:crowd', JSON.stringify(doc));
        acknowledged[task] = ++n;
      } catch (e) {
        if (!/^(FENCED|LOCKED) /.test(e.message)) throw e;
        refusals++;
      }
    }
  }));
  return [acknowledged, refusals, (Date.now() - began) / 1000];
}

// cluster is what a client for clusters does: it finds out who has which slot, and then goes where a key's is.
export async function cluster(client, { pipelined, subscriber, publish }) {
  await step('cycles', async () => {
    for (const i of range(50)) {
      const doc = JSON.parse((await client.get(`ctx:${i}`)) ?? '[]');
      await client.set(`ctx:${i}`, JSON.stringify([...doc, i]));
    }
    return 'done';
  });
  await step('pipeline', () => pipelined(range(50).map((i) => `ctx:${i}`)));
  await step('message', async () => {
    const messages = [];
    await subscriber((message) => messages.push(message));
    await publish('hello');
    await until(() => messages.length > 0);
    return messages;
  });
}

// crowds are the tasks of that name, by how many there are.
export const crowds = (client, name) => Object.fromEntries([1, 2, 8].map((tasks) => [
  `crowd of ${tasks}`,
  () => step('turns', async () => crowd(await client(), name, { tasks, turns: 10, thinks: [5, 50] })),
]));

export const range = (n) => [...Array(n).keys()];

export const everyByte = Buffer.from(range(256));

export const bigValue = '0123456789abcdef'.repeat(5 << 16);

export const incrementBy = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
