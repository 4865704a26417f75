"""A client of `tamtam serve` in Python, with the standard library alone: makes a session, sends a message, follows its events over
broken connections, steers it while it asks, and answers. Run it with the server's address:

    python3 client.py http://127.0.0.1:7878
"""

import json
import sys
import urllib.request

SERVER = sys.argv[1]
SESSION = "/v1/sessions/client"


def post(path, body):
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(SERVER + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        said = answer.read()
    return json.loads(said) if said else None


def events(last="0"):
    """The events of the session from its beginning. Only a durable event has an id: with the last one, the stream goes on."""
    while True:
        request = urllib.request.Request(SERVER + SESSION + "/events", headers={"last-event-id": last})
        try:
            with urllib.request.urlopen(request, timeout=60) as stream:
                for line in stream:
                    key, _, value = line.decode().rstrip("\n").partition(": ")
                    if key == "event" and value == "ended":
                        return
                    if key == "id":
                        last = value
                    if key == "data" and "event" in (event := json.loads(value)):
                        yield event
        except OSError:
            pass  # The connection broke: come again with the last id.


post("/v1/sessions", {"id": "client"})
# A message with an id is taken once, however often it is sent.
post(SESSION + "/messages", {"id": "m1", "text": "ask me"})
for event in events():
    if event["event"] == "ask":
        print(f"asked: may {event['name']} run?")
        post(SESSION + "/messages", {"id": "m2", "text": "be brief", "delivery": "steer", "steering": "finish_batch"})
        post(f"{SESSION}/asks/{event['ask']}", {"grant": "once", "who": "client.py"})
    if event["event"] == "steered":
        print(f"steered: {event['message']['parts'][0]['text']}")
    if event["event"] == "call_finished":
        print(f"{event['name']}: {event.get('error', 'done')}")
    if event["event"] == "turn_finished":
        print(f"answer: {event['text']} ({event['outcome']})")
        break
