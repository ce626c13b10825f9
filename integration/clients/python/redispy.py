"""redis-py as an agent uses it: python redispy.py TASK PORT REDIS_PORT.

Prints what each step of the task came to, as a JSON object. clients_test.go says which steps there
are; the other clients take the same ones.
"""

import json
import sys
import threading
import time

import redis

TASK, PORT, REDIS_PORT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

report = {}


def step(take):
    """Takes a step at once and reports what it returns or raises."""
    name = take.__name__.replace("_", " ")
    try:
        report[name] = {"value": take()}
    except Exception as e:  # whatever it is, it goes into the report
        report[name] = {"error": f"{type(e).__name__}: {e}"}
    return take


def connect(**options):
    return redis.Redis(port=PORT, **options)


def straight(**options):
    return redis.Redis(port=REDIS_PORT, **options)


def until(condition):
    while not condition():
        time.sleep(0.005)


def connections(admin):
    return [c for c in admin.client_list() if c["name"] == "worker-1"]


def handshake():
    @step
    def defaults():
        return connect().echo("defaults").decode()

    @step
    def name_and_database():
        return connect(client_name="worker-1", db=2).echo("name and database").decode()


def use():
    client = connect(client_name="worker-1", db=2)
    admin = straight(db=2)

    @step
    def connect_with_defaults():
        return connect().ping()

    @step
    def connect_with_name_and_database():
        client.ping()
        return [[c["name"], int(c["db"])] for c in connections(admin)][0]

    @step
    def select():
        client.set("selected", "in 2")
        return [admin.get("selected").decode(), straight().get("selected")]

    @step
    def pipeline():
        pipe = client.pipeline(transaction=False)
        for i in range(500):
            pipe.set(f"pipeline:{i}", i)
            pipe.get(f"pipeline:{i}")
        replies = pipe.execute()
        return sum(replies[2 * i] is True and replies[2 * i + 1] == b"%d" % i for i in range(500)) * 2

    @step
    def transaction():
        pipe = client.pipeline()
        ok, n, value = pipe.set("transaction", "v").incr("transaction:n").get("transaction").execute()
        return [ok, n, value.decode()]

    @step
    def watch():
        attempts = 0

        def append(pipe):
            nonlocal attempts
            attempts += 1
            value = pipe.get("watched") or b""
            if attempts == 1:
                admin.set("watched", "theirs")
            pipe.multi()
            pipe.set("watched", value + b", mine")

        client.transaction(append, "watched")
        return [attempts, client.get("watched").decode()]

    @step
    def publish_and_subscribe():
        subscriber = client.pubsub()
        subscriber.subscribe("news")
        subscriber.psubscribe("new?:*")
        for _ in range(2):
            subscriber.get_message(timeout=30)
        receivers = [client.publish("news", "one"), client.publish("news:more", "two")]
        messages = [subscriber.get_message(timeout=30) for _ in range(2)]
        return [receivers, [[m["channel"].decode(), m["data"].decode()] for m in messages]]

    @step
    def blocking_pop():
        def push():
            until(lambda: admin.info("clients")["blocked_clients"] == 1)
            admin.rpush("jobs", "job")

        pusher = threading.Thread(target=push)
        pusher.start()
        popped = client.blpop("jobs", 30)
        pusher.join()
        return [part.decode() for part in popped]

    @step
    def big_value():
        value = b"0123456789abcdef" * (5 << 16)
        client.set("big", value)
        return [len(value), client.get("big") == value]

    @step
    def binary_value():
        client.set(b"binary\r\n\x00\xff", bytes(range(256)))
        return client.get(b"binary\r\n\x00\xff").hex()

    @step
    def scan():
        client.mset({f"scan:{i}": i for i in range(500)})
        return len(set(client.scan_iter("scan:*", count=20)))

    @step
    def script():
        script = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
        first = [script(["scripted"], [1]), script(["scripted"], [1])]
        client.script_flush()
        return first + [script(["scripted"], [1])]

    @step
    def pool():
        wrong = []

        def work(i):
            for n in range(50):
                client.set(f"pool:{i}", n)
                if client.get(f"pool:{i}") != b"%d" % n:
                    wrong.append(i)

        workers = [threading.Thread(target=work, args=[i]) for i in range(16)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return len(wrong)


def killed():
    client = connect(client_name="worker-1", db=2)
    admin = straight(db=2)
    subscriber = client.pubsub()
    subscriber.subscribe("news")
    subscriber.get_message(timeout=30)
    client.set("before", 1)
    before = {c["id"] for c in connections(admin)}
    for id in before:
        admin.client_kill_filter(_id=id)
    refusals = []

    def insist(do):
        """Does it until no connection breaks any more."""
        while True:
            try:
                return do()
            except redis.ResponseError as e:
                refusals.append(str(e))
            except redis.ConnectionError:
                pass

    @step
    def commands_go_on():
        insist(lambda: client.set("after", 1))
        now = connections(admin)
        return [client.get("before").decode(), client.get("after").decode(), int(now[0]["db"]), now[0]["id"] not in before]

    @step
    def subscriptions_go_on():
        message = None
        while message is None:
            admin.publish("news", "after")
            message = insist(lambda: subscriber.get_message(ignore_subscribe_messages=True, timeout=0.02))
        return message["data"].decode()

    @step
    def refusals_in_between():
        return refusals


def refusals():
    def refused(do):
        try:
            return ["no error", do()]
        except redis.RedisError as e:
            return [type(e).__name__, str(e)]

    a = connect(client_name="holder", single_connection_client=True)
    b = connect(client_name="other", single_connection_client=True)

    @step
    def locked():
        a.get("busy:doc")
        read, write = refused(lambda: b.get("busy:doc")), refused(lambda: b.set("busy:doc", "b"))
        a.set("busy:doc", "a")
        return [read, write, b.get("busy:doc").decode()]

    @step
    def fenced():
        a.get("stale:doc")
        b.get("stale:doc")
        b.set("stale:doc", "b")
        stale = refused(lambda: a.set("stale:doc", "a"))
        read = a.get("stale:doc").decode()
        a.set("stale:doc", read + ", a")
        return [stale, read, b.get("stale:doc").decode()]


def workers():
    def work(name):
        client = connect(single_connection_client=True)
        for _ in range(20):
            doc = json.loads(client.get("ctx:doc") or "{}")
            doc[name] = doc.get(name, 0) + 1
            client.set("ctx:doc", json.dumps(doc))

    failed = []

    def watched(name):
        try:
            work(name)
        except Exception as e:  # into the report, not onto the terminal
            failed.append(str(e))

    @step
    def increments():
        all = [threading.Thread(target=watched, args=[f"redis-py {i}"]) for i in range(8)]
        for worker in all:
            worker.start()
        for worker in all:
            worker.join()
        return failed


def turns(shared=False):
    """As turns in node/report.js, by threads that share a pool."""
    client = connect()
    acknowledged, refusals, failed = {}, [], []

    def work(i):
        key = f"turn:shared {i % 8}" if shared else f"turn:redis-py {i}"
        task = f"redis-py {PORT} {i}"
        n = 0
        while n < (62 if shared else 125):
            try:
                doc = json.loads(client.get(key) or "{}")
                doc[task] = doc.get(task, 0) + 1
                time.sleep((1 + (i + n) % 5) / 1000)
                client.set(key, json.dumps(doc))
                n += 1
                acknowledged[task] = n
            except redis.ResponseError as e:
                if not str(e).startswith(("FENCED ", "LOCKED ")):
                    raise
                refusals.append(str(e))

    def watched(i):
        try:
            work(i)
        except Exception as e:  # into the report, not onto the terminal
            failed.append(f"{type(e).__name__}: {e}")

    @step
    def turns():
        all = [threading.Thread(target=watched, args=[i]) for i in range(16)]
        for worker in all:
            worker.start()
        for worker in all:
            worker.join()
        if failed:
            raise RuntimeError(failed)
        return [acknowledged, len(refusals) > 0 if shared else refusals]


def shared_turns():
    turns(shared=True)


{"turns": turns, "shared turns": shared_turns, "handshake": handshake, "use": use, "killed": killed, "refusals": refusals, "workers": workers}[TASK]()
json.dump(report, sys.stdout)
