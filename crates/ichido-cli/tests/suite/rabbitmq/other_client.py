"""A client of RabbitMQ that knows nothing of ichido, for the tests beside this file.

other_client.py URL publish QUEUE    reads messages from standard input, one JSON object a line, and publishes them
other_client.py URL consume QUEUE N  takes and acknowledges N messages, and prints each as JSON
"""

import base64
import json
import sys

import pika


def header(value):
    """JSON has no bytes: they are given as {"bytes": base64}."""
    return base64.b64decode(value["bytes"]) if isinstance(value, dict) else value


def publish(channel, queue):
    channel.confirm_delivery()
    for line in sys.stdin:
        message = json.loads(line)
        headers = {name: header(value) for name, value in message.get("headers", {}).items()}
        properties = pika.BasicProperties(headers=headers, message_id=message.get("message_id"), delivery_mode=2)
        channel.basic_publish("", queue, message["body"].encode(), properties, mandatory=True)


def consume(channel, queue, count):
    for method, properties, body in channel.consume(queue, inactivity_timeout=60):
        if method is None:
            sys.exit("nothing came")
        names = ("content_type", "message_id", "delivery_mode")
        known = {name: getattr(properties, name) for name in names}
        print(json.dumps({"headers": properties.headers, "body": body.decode(), **known}), flush=True)
        channel.basic_ack(method.delivery_tag)
        count -= 1
        if count == 0:
            return


connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
if sys.argv[2] == "publish":
    publish(connection.channel(), sys.argv[3])
else:
    consume(connection.channel(), sys.argv[3], int(sys.argv[4]))
connection.close()
