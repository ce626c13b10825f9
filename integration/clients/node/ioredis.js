// ioredis as an agent uses it; report.js has the usage.

import { Cluster, Redis } from 'ioredis';
import * as r from './report.js';

const connect = (options) => new Redis({ port: r.port, ...options });
const straight = (options) => new Redis({ port: r.redisPort, ...options });
const worker = { connectionName: 'worker-1', db: 2 };

async function handshake() {
  await r.step('defaults', () => connect().echo('defaults'));
  await r.step('name and database', () => connect(worker).echo('name and database'));
}

async function use() {
  const client = connect(worker);
  const admin = straight({ db: 2 });

  await r.step('connect with defaults', async () => (await connect().ping()) === 'PONG');

  await r.step('connect with name and database', async () => {
    await client.ping();
    const [connection] = r.connections(await admin.client('LIST'));
    return [connection.name, Number(connection.db)];
  });

  await r.step('select', async () => {
    await client.set('selected', 'in 2');
    return [await admin.get('selected'), await straight().get('selected')];
  });

  await r.step('pipeline', async () => {
    const pipeline = client.pipeline();
    for (const i of r.range(500)) pipeline.set(`pipeline:${i}`, i).get(`pipeline:${i}`);
    const replies = await pipeline.exec();
    return replies.filter(([err, reply], i) => err === null && reply === (i % 2 ? `${(i - 1) / 2}` : 'OK')).length;
  });

  await r.step('transaction', async () => {
    const [[, ok], [, n], [, value]] = await client
      .multi().set('transaction', 'v').incr('transaction:n').get('transaction').exec();
    return [ok === 'OK', n, value];
  });

  await r.step('watch', async () => {
    for (let attempts = 1; ; attempts++) {
      await client.watch('watched');
      const value = (await client.get('watched')) ?? '';
      if (attempts === 1) await admin.set('watched', 'theirs');
      if (await client.multi().set('watched', `${value}, mine`).exec()) return [attempts, await client.get('watched')];
    }
  });

  await r.step('publish and subscribe', async () => {
    const subscriber = client.duplicate();
    const messages = [];
    subscriber.on('message', (channel, message) => messages.push([channel, message]));
    subscriber.on('pmessage', (_, channel, message) => messages.push([channel, message]));
    await subscriber.subscribe('news');
    await subscriber.psubscribe('new?:*');
    const receivers = [await client.publish('news', 'one'), await client.publish('news:more', 'two')];
    await r.until(() => messages.length >= 2);
    return [receivers, messages];
  });

  await r.step('blocking pop', async () => {
    const popped = client.blpop('jobs', 30);
    await r.until(async () => (await admin.info('clients')).includes('blocked_clients:1\r\n'));
    await admin.rpush('jobs', 'job');
    return popped;
  });

  await r.step('big value', async () => {
    await client.set('big', r.bigValue);
    return [r.bigValue.length, (await client.get('big')) === r.bigValue];
  });

  await r.step('binary value', async () => {
    const key = Buffer.from('binary\r\n\x00\xff', 'latin1');
    await client.set(key, r.everyByte);
    return (await client.getBuffer(key)).toString('hex');
  });

  await r.step('scan', async () => {
    await client.mset(Object.fromEntries(r.range(500).map((i) => [`scan:${i}`, i])));
    const found = new Set();
    for await (const keys of client.scanStream({ match: 'scan:*', count: 20 })) keys.forEach((key) => found.add(key));
    return found.size;
  });

  await r.step('script', async () => {
    client.defineCommand('incrementBy', { numberOfKeys: 1, lua: r.incrementBy });
    const replies = [await client.incrementBy('scripted', 1), await client.incrementBy('scripted', 1)];
    await client.script('FLUSH');
    return [...replies, await client.incrementBy('scripted', 1)];
  });

  // ioredis has no pool: all tasks share the connection.
  await r.step('pool', async () => {
    let wrong = 0;
    await Promise.all(r.range(16).map(async (i) => {
      for (const n of r.range(50)) {
        await client.set(`pool:${i}`, n);
        if ((await client.get(`pool:${i}`)) !== `${n}`) wrong++;
      }
    }));
    return wrong;
  });
}

async function killed() {
  const client = connect(worker);
  const admin = straight({ db: 2 });
  const subscriber = client.duplicate();
  let heard;
  subscriber.on('message', (_, message) => { heard = message; });
  await subscriber.subscribe('news');
  await client.set('before', 1);
  const before = new Set(r.connections(await admin.client('LIST')).map(({ id }) => id));
  for (const id of before) await admin.client('KILL', 'ID', id);
  const refusals = [];

  await r.step('commands go on', async () => {
    for (;;) {
      try {
        await client.set('after', 1);
        break;
      } catch (e) {
        if (e.constructor.name === 'ReplyError') refusals.push(e.message);
      }
    }
    const [now] = r.connections(await admin.client('LIST'));
    return [await client.get('before'), await client.get('after'), Number(now.db), !before.has(now.id)];
  });

  await r.step('subscriptions go on', async () => {
    for (; !heard; await r.sleep(20)) await admin.publish('news', 'after');
    return heard;
  });

  await r.step('refusals in between', () => refusals);
}

async function refusals() {
  const a = connect({ connectionName: 'holder' });
  const b = connect({ connectionName: 'other' });

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

async function workers() {
  await r.step('increments', async () => {
    const failed = [];
    await Promise.all(r.range(8).map(async (i) => {
      const client = connect();
      const name = `ioredis ${i}`;
      try {
        for (let n = 0; n < 20; n++) {
          const doc = JSON.parse((await client.get('ctx:doc')) ?? '{}');
          doc[name] = (doc[name] ?? 0) + 1;
          await client.set('ctx:doc', JSON.stringify(doc));
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
    const client = connect();
    for (let round = 0; round < 10; round++) {
      const tasks = r.range(4);
      const read = await Promise.all(tasks.map(() => client.get('ctx:doc')));
      await Promise.all(tasks.map((task) => client.set('ctx:doc', JSON.stringify([...JSON.parse(read[task] ?? '[]'), `${round}.${task}`]))));
    }
    return JSON.parse(await client.get('ctx:doc')).length;
  });
}

async function cluster() {
  const client = new Cluster([{ host: '127.0.0.1', port: Number(r.port) }]);
  await r.cluster(client, {
    pipelined: async (keys) => {
      const pipeline = client.pipeline();
      for (const key of keys) pipeline.get(key);
      return (await pipeline.exec()).filter(([err, reply], i) => err === null && reply === `[${i}]`).length;
    },
    subscriber: async (hears) => {
      const other = new Cluster([{ host: '127.0.0.1', port: Number(r.port) }]);
      other.on('message', (_, message) => hears(message));
      await other.subscribe('news');
    },
    publish: (message) => client.publish('news', message),
  });
}

const turns = (options) => r.step('turns', () => r.turns(connect(), 'ioredis', options));

await r.run({
  handshake, use, killed, refusals, workers, shared, cluster,
  turns: () => turns({}), 'shared turns': () => turns({ shared: true }), ...r.crowds(connect, 'ioredis'),
});
