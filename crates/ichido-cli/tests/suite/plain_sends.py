"""Sends with the statements that `ichido send --sql --json` has printed, through an ordinary driver: for the tests beside this file.

plain_sends.py sqlite|postgres|mysql DATABASE

Reads one JSON object a line from standard input and sends it in one transaction with the others; {"end": "commit"} or
{"end": "rollback"} ends that.
"""

import json
import sqlite3
import sys
from datetime import timedelta
from urllib.parse import urlsplit

import psycopg
import pymysql

from ichido_send import Queue


def connect(kind, database):
    if kind == "sqlite":
        return sqlite3.connect(database, timeout=30)
    if kind == "postgres":
        return psycopg.connect(database, cursor_factory=psycopg.RawCursor)
    place = urlsplit(database)
    return pymysql.connect(
        host=place.hostname, port=place.port, user=place.username, password=place.password, database=place.path.lstrip("/")
    )


kind, database = sys.argv[1:]
connection = connect(kind, database)
cursor = connection.cursor()
for line in sys.stdin:
    asked = json.loads(line)
    if "end" in asked:
        getattr(connection, asked["end"])()
        continue
    queue = Queue(asked.pop("how"), placeholder="%s" if kind == "mysql" else None)
    if "delay" in asked:
        asked["delay"] = timedelta(milliseconds=asked["delay"])
    queue.send(cursor, asked.pop("message"), **asked)
connection.close()
