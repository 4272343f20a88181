"""Signs people up, each with a welcome message, on SQLite with Python's own sqlite3.

    sign_up_sqlite.py DATABASE_FILE WELCOME.JSON NAME...
"""

import sqlite3
import sys
from contextlib import closing

from ichido_send import Queue


def main(file, described, *names):
    welcome = Queue(described)
    # Others write too: wait for them.
    with closing(sqlite3.connect(file, timeout=30)) as connection:
        for name in names:
            try:
                with connection:
                    cursor = connection.cursor()
                    cursor.execute("begin immediate")
                    cursor.execute("insert into member (name) values (?)", [name])
                    welcome.send(cursor, {"name": name}, headers={"source": "web"})
                    if name == "Mallory":
                        raise ValueError("we do not take everybody")
                print(f"{name} has signed up")
            except ValueError as refused:
                print(f"{name} has not: {refused}")


main(*sys.argv[1:])
