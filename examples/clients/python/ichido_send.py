"""Sends messages to a queue of ichido's, in the caller's transaction, with the statements that
`ichido send --sql QUEUE --json` prints. Copy it: it needs nothing but Python 3.10.
"""

import json
import uuid


class Queue:
    """A queue, as a file that `ichido send --sql QUEUE --json` has printed describes it."""

    def __init__(self, file, placeholder=None):
        """`placeholder` is what the driver writes for a parameter, if that is not what the database does."""
        with open(file, encoding="utf-8") as described:
            self._how = json.load(described)
        if placeholder:
            for statement in self._how["statements"]:
                statement["sql"] = statement["sql"].replace("?", placeholder)

    def send(self, cursor, message, *, id=None, headers=None, group=None, unique=None, delay=None):
        """Sends a message in the transaction that the cursor is in.

        `headers` is a dict of texts, `delay` a timedelta. A message for a table is a dict of columns. Returns the id of a
        message that goes to RabbitMQ, and None for others.
        """
        if self._how["kind"] == "broker":
            id = str(id or uuid.uuid4())
        values = {
            "id": id,
            "payload": json.dumps(message),
            "headers": json.dumps(headers) if headers else None,
            "group": group,
            "unique": unique,
            "delay_ms": round(delay.total_seconds() * 1000) if delay else None,
        }
        if self._how["kind"] == "table":
            values = message
        for statement in self._how["statements"]:
            cursor.execute(statement["sql"], [values.get(name) for name in statement["parameters"]])
        return id

    @property
    def after_commit(self):
        """Statements that wake idle workers; to be run after COMMIT, if they shall not wait for their next poll."""
        return [statement["sql"] for statement in self._how["after_commit"]]
