// redlock around read-modify-write cycles, a connection a client; program.go says what is asked and answered.

import { createInterface } from 'node:readline';
import { Redis } from 'ioredis';
import Redlock from 'redlock';

const lease = 8000; // ms that a lock is held at most, as with the other locks; how often and when it tries again are redlock's defaults
const digits = 20;
const size = 1024;

const [port, n, ...keys] = process.argv.slice(2);
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

class Client {
  constructor(key) {
    this.redis = new Redis({ port: Number(port) });
    this.redlock = new Redlock([this.redis]);
    this.key = key;
  }

  // Tells whether the lock was to be had.
  async cycle() {
    let lock;
    try {
      lock = await this.redlock.lock(`lock:${this.key}`, lease);
    } catch (error) {
      if (error instanceof Redlock.LockError) return false;
      throw error;
    }
    const value = await this.redis.get(this.key);
    const count = value === null ? 0 : Number(value.slice(0, digits));
    await this.redis.set(this.key, String(count + 1).padStart(digits, '0').padEnd(size, 'x'));
    await lock.unlock();
    return true;
  }

  // Does cycles until the end of the turn.
  async work(start, length) {
    const spell = { took: [], gaveUp: 0, inTime: 0, last: 0 };
    const end = start + length;
    for (let begun = performance.now(); begun < end;) {
      if (!(await this.cycle())) {
        spell.gaveUp++;
        continue;
      }
      const now = performance.now();
      spell.took.push(now - begun);
      if (now <= end) {
        spell.inTime++;
        spell.last = now - start;
      }
      begun = now;
    }
    return spell;
  }
}

try {
  const clients = Array.from({ length: Number(n) }, (_, i) => new Client(keys[i % keys.length]));
  for (const client of clients) {
    if (!(await client.cycle())) throw new Error('the lock is not to be had');
  }
  say({});
  for await (const line of createInterface({ input: process.stdin })) {
    const start = performance.now();
    say({ clients: await Promise.all(clients.map((client) => client.work(start, Number(line)))) });
  }
} catch (error) {
  say({ error: String(error) });
}
process.exit();
