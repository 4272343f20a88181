"""Signs people up, each with a welcome message, on PostgreSQL with psycopg.

    sign_up_postgres.py DATABASE_URL WELCOME.JSON NAME...
"""

import sys

import psycopg

from ichido_send import Queue


def main(url, file, *names):
    welcome = Queue(file)
    # ichido prints PostgreSQL's own placeholders, $1, $2, …
    with psycopg.connect(url, cursor_factory=psycopg.RawCursor) as connection:
        for name in names:
            try:
                with connection.transaction(), connection.cursor() as cursor:
                    cursor.execute("insert into member (name) values ($1)", [name])
                    welcome.send(cursor, {"name": name}, headers={"source": "web"})
                    if name == "Mallory":
                        raise ValueError("we do not take everybody")
                print(f"{name} has signed up")
            except ValueError as refused:
                print(f"{name} has not: {refused}")
        for wake in welcome.after_commit:
            connection.execute(wake)


main(*sys.argv[1:])
