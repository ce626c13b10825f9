// node-redis as an agent uses it; report.js has the usage.

import { createClient, createClientPool, createCluster, defineScript, ErrorReply, RESP_TYPES, WatchError } from 'redis';
import * as r from './report.js';

const RESP = Number(r.protocol);

const worker = {
  name: 'worker-1',
  database: 2,
  scripts: {
    incrementBy: defineScript({
      SCRIPT: r.incrementBy,
      NUMBER_OF_KEYS: 1,
      parseCommand(parser, key, n) {
        parser.pushKey(key);
        parser.push(String(n));
      },
      transformReply: (reply) => reply,
    }),
  },
};

// A client must have a listener for errors, or a lost connection ends its process.
const open = (port, options) =>
  createClient({ socket: { host: '127.0.0.1', port: Number(port) }, RESP, ...options }).on('error', () => {}).connect();

const connect = (options) => open(r.port, options);
const straight = (options) => open(r.redisPort, options);

async function handshake() {
  await r.step('defaults', async () => (await connect()).echo('defaults'));
  await r.step('name and database', async () => (await connect(worker)).echo('name and database'));
}

async function use() {
  const client = await connect(worker);
  const admin = await straight({ database: 2 });

  await r.step('connect with defaults', async () => (await (await connect()).ping()) === 'PONG');

  await r.step('connect with name and database', async () => {
    await client.ping();
    const [connection] = r.connections(await admin.sendCommand(['CLIENT', 'LIST']));
    return [connection.name, Number(connection.db)];
  });

  await r.step('select', async () => {
    await client.set('selected', 'in 2');
    return [await admin.get('selected'), await (await straight()).get('selected')];
  });

  await r.step('pipeline', async () => {
    const pipeline = client.multi();
    for (const i of r.range(500)) pipeline.set(`pipeline:${i}`, `${i}`).get(`pipeline:${i}`);
    const replies = await pipeline.execAsPipeline();
    return replies.filter((reply, i) => reply === (i % 2 ? `${(i - 1) / 2}` : 'OK')).length;
  });

  await r.step('transaction', async () => {
    const [ok, n, value] = await client
      .multi().set('transaction', 'v').incr('transaction:n').get('transaction').exec();
    return [ok === 'OK', n, value];
  });

  await r.step('watch', async () => {
    for (let attempts = 1; ; attempts++) {
      await client.watch('watched');
      const value = (await client.get('watched')) ?? '';
      if (attempts === 1) await admin.set('watched', 'theirs');
      try {
        await client.multi().set('watched', `${value}, mine`).exec();
        return [attempts, await client.get('watched')];
      } catch (e) {
        if (!(e instanceof WatchError)) throw e;
      }
    }
  });

  await r.step('publish and subscribe', async () => {
    const subscriber = await client.duplicate().on('error', () => {}).connect();
    const messages = [];
    const hear = (message, channel) => messages.push([channel, message]);
    await subscriber.subscribe('news', hear);
    await subscriber.pSubscribe('new?:*', hear);
    const receivers = [await client.publish('news', 'one'), await client.publish('news:more', 'two')];
    await r.until(() => messages.length >= 2);
    return [receivers, messages];
  });

  await r.step('blocking pop', async () => {
    const popped = client.blPop('jobs', 30);
    await r.until(async () => (await admin.info('clients')).includes('blocked_clients:1\r\n'));
    await admin.rPush('jobs', 'job');
    const { key, element } = await popped;
    return [key, element];
  });

  await r.step('big value', async () => {
    await client.set('big', r.bigValue);
    return [r.bigValue.length, (await client.get('big')) === r.bigValue];
  });

  await r.step('binary value', async () => {
    const key = Buffer.from('binary\r\n\x00\xff', 'latin1');
    await client.set(key, r.everyByte);
    return (await client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer }).get(key)).toString('hex');
  });

  await r.step('scan', async () => {
    await client.mSet(Object.fromEntries(r.range(500).map((i) => [`scan:${i}`, `${i}`])));
    const found = new Set();
    for await (const keys of client.scanIterator({ MATCH: 'scan:*', COUNT: 20 })) keys.forEach((key) => found.add(key));
    return found.size;
  });

  await r.step('script', async () => {
    const replies = [await client.incrementBy('scripted', 1), await client.incrementBy('scripted', 1)];
    await client.scriptFlush();
    return [...replies, await client.incrementBy('scripted', 1)];
  });

  await r.step('pool', async () => {
    const pool = await openPool(16);
    let wrong = 0;
    await Promise.all(r.range(16).map(async (i) => {
      for (const n of r.range(50)) {
        await pool.set(`pool:${i}`, `${n}`);
        if ((await pool.get(`pool:${i}`)) !== `${n}`) wrong++;
      }
    }));
    return wrong;
  });
}

function openPool(size) {
  return createClientPool({ socket: { host: '127.0.0.1', port: Number(r.port) }, RESP }, { minimum: size, maximum: size, acquireTimeout: 60_000 })
    .on('error', () => {})
    .connect();
}

async function killed() {
  const client = await connect(worker);
  const admin = await straight({ database: 2 });
  const subscriber = await client.duplicate().on('error', () => {}).connect();
  let heard;
  await subscriber.subscribe('news', (message) => { heard = message; });
  await client.set('before', '1');
  const before = new Set(r.connections(await admin.sendCommand(['CLIENT', 'LIST'])).map(({ id }) => id));
  for (const id of before) await admin.sendCommand(['CLIENT', 'KILL', 'ID', id]);
  const refusals = [];

  await r.step('commands go on', async () => {
    for (;;) {
      try {
        await client.set('after', '1');
        break;
      } catch (e) {
        if (e instanceof ErrorReply) refusals.push(e.message);
      }
    }
    const [now] = r.connections(await admin.sendCommand(['CLIENT', 'LIST']));
    return [await client.get('before'), await client.get('after'), Number(now.db), !before.has(now.id)];
  });

  await r.step('subscriptions go on', async () => {
    for (; !heard; await r.sleep(20)) await admin.publish('news', 'after');
    return heard;
  });

  await r.step('refusals in between', () => refusals);
}

async function refusals() {
  const a = await connect({ name: 'holder' });
  const b = await connect({ name: 'other' });

  await r.step('locked', async () => {
    await a.get('busy:doc');
    const read = await r.refused(b.get('busy:doc'));
    const write = await r.refused(b.set('busy:doc', 'b'));
    await a.set('busy:doc', 'a');
    return [read, write, await b.get('busy:doc')];
  });

  await r.step('fenced', async () => {
    await a.get('stale:doc');
    await b.get('stale:doc');
    await b.set('stale:doc', 'b');
    const stale = await r.refused(a.set('stale:doc', 'a'));
    const read = await a.get('stale:doc');
    await a.set('stale:doc', `${read}, a`);
    return [stale, read, await b.get('stale:doc')];
  });
}

// Each turn has a connection of the pool to itself.
async function workers() {
  await r.step('increments', async () => {
    const pool = await openPool(8);
    const failed = [];
    await Promise.all(r.range(8).map(async (i) => {
      const name = `node-redis RESP${RESP} ${i}`;
      try {
        for (let n = 0; n < 20; n++) {
          await pool.execute(async (client) => {
            const doc = JSON.parse((await client.get('ctx:doc')) ?? '{}');
            doc[name] = (doc[name] ?? 0) + 1;
            await client.set('ctx:doc', JSON.stringify(doc));
          });
        }
      } catch (e) {
        failed.push(e.message);
      }
    }));
    return failed;
  });
}

// Several tasks share one connection: all read before any writes, so that of each round one update stays.
async function shared() {
  await r.step('rounds', async () => {
    const client = await connect();
    for (let round = 0; round < 10; round++) {
      const tasks = r.range(4);
      const read = await Promise.all(tasks.map(() => client.get('ctx:doc')));
      await Promise.all(tasks.map((task) => client.set('ctx:doc', JSON.stringify([...JSON.parse(read[task] ?? '[]'), `${round}.${task}`]))));
    }
    return JSON.parse(await client.get('ctx:doc')).length;
  });
}

async function cluster() {
  const connect = () =>
    createCluster({ rootNodes: [{ socket: { host: '127.0.0.1', port: Number(r.port) } }], defaults: { RESP } })
      .on('error', () => {})
      .connect();
  const client = await connect();
  await r.cluster(client, {
    pipelined: async (keys) => {
      const replies = await Promise.all(keys.map((key) => client.get(key))); // one tick, one write
      return replies.filter((reply, i) => reply === `[${i}]`).length;
    },
    subscriber: async (hears) => (await connect()).subscribe('news', hears),
    publish: (message) => client.publish('news', message),
  });
}

const turns = (client, options) =>
  r.step('turns', async () => r.turns(await client, `node-redis RESP${RESP}`, options));

await r.run({
  handshake, use, killed, refusals, workers, shared, cluster,
  turns: () => turns(connect(), {}), 'shared turns': () => turns(connect(), { shared: true }),
  ...r.crowds(connect, `node-redis RESP${RESP}`),
  'pooled turns': () => turns(openPool(16), {}), 'pooled shared turns': () => turns(openPool(16), { shared: true }),
});
