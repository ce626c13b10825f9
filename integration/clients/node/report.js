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

export const range = (n) => [...Array(n).keys()];

export const everyByte = Buffer.from(range(256));

export const bigValue = '0123456789abcdef'.repeat(5 << 16);

export const incrementBy = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
