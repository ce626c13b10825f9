"""redis-py's Lock around read-modify-write cycles, a thread a client; program.go says what is asked and answered."""

import json
import sys
import threading
import time

import redis
from redis.exceptions import LockError, LockNotOwnedError

LEASE = 8  # seconds that a lock is held and waited for at most, as with the other locks; the pause between tries is redis-py's default
DIGITS, SIZE = 20, 1024


class Client:
    def __init__(self, port, key):
        self.redis, self.key = redis.Redis(port=port, single_connection_client=True), key
        self.lock = self.redis.lock("lock:" + key, timeout=LEASE, blocking_timeout=LEASE)

    def cycle(self):
        """Returns whether the lock was to be had."""
        if not self.lock.acquire():
            return False
        value = self.redis.get(self.key)
        n = int(value[:DIGITS]) if value else 0
        self.redis.set(self.key, str(n + 1).zfill(DIGITS).ljust(SIZE, "x"))
        try:
            self.lock.release()
        except LockNotOwnedError:  # it was held for too long; what was written is written
            pass
        return True

    def work(self, start, length):
        """Does cycles until the end of the turn."""
        self.error, spell = None, {"took": [], "gaveUp": 0, "inTime": 0, "last": 0}
        self.spell = spell
        try:
            begun, end = time.monotonic(), start + length
            while begun < end:
                if not self.cycle():
                    spell["gaveUp"] += 1
                    continue
                now = time.monotonic()
                spell["took"].append((now - begun) * 1000)
                if now <= end:
                    spell["inTime"] += 1
                    spell["last"] = (now - start) * 1000
                begun = now
        except (redis.RedisError, LockError, ValueError) as error:
            self.error = repr(error)


def say(what):
    print(json.dumps(what), flush=True)


def main(port, n, *keys):
    clients = [Client(int(port), keys[i % len(keys)]) for i in range(int(n))]
    for client in clients:
        if not client.cycle():
            return say({"error": "the lock is not to be had"})
    say({})
    for line in sys.stdin:
        start = time.monotonic()
        threads = [threading.Thread(target=client.work, args=(start, int(line) / 1000)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        errors = [client.error for client in clients if client.error]
        say({"error": errors[0]} if errors else {"clients": [client.spell for client in clients]})


main(*sys.argv[1:])
