"""An agent in a pod: python agent.py serve|job. It knows nothing but REDIS_URL, and never tries again.

serve  takes a turn for each word in the list "words", and one more when it is told to end
job    takes one turn and ends
"""

import os
import signal
import sys
import time

import redis

# The first thing it does is to connect: if the port is closed, this fails.
pool = redis.ConnectionPool.from_url(os.environ["REDIS_URL"], decode_responses=True)
client = redis.Redis(connection_pool=pool, single_connection_client=True)
client.ping()
KEY = os.environ["KEY"]


def turn(word):
    """Reads the context, thinks, writes it back."""
    context = client.get(KEY) or ""
    client.set(KEY, context + word + " ")


turn("first")
if sys.argv[1] == "serve":
    ends = []
    signal.signal(signal.SIGTERM, lambda *_: ends.append(True))
    identity = client.client_id()
    client.set("state", "ready")
    while not ends:
        word = client.lpop("words")
        if word:
            turn(word)
            client.set("state", f"{word} {client.client_id() == identity}")
        time.sleep(0.02)
    turn("last")
