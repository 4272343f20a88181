"""Signs people up, each with a welcome message, on MariaDB or MySQL with PyMySQL.

    sign_up_mariadb.py DATABASE_URL WELCOME.JSON NAME...
"""

import sys
from urllib.parse import unquote, urlsplit

import pymysql

from ichido_send import Queue


def connect(url):
    place = urlsplit(url)
    return pymysql.connect(
        host=place.hostname,
        port=place.port or 3306,
        user=unquote(place.username or ""),
        password=unquote(place.password or ""),
        database=place.path.lstrip("/"),
        charset="utf8mb4",
    )


def main(url, file, *names):
    welcome = Queue(file, placeholder="%s")
    with connect(url) as connection:
        for name in names:
            try:
                with connection.cursor() as cursor:
                    cursor.execute("insert into member (name) values (%s)", [name])
                    welcome.send(cursor, {"name": name}, headers={"source": "web"})
                    if name == "Mallory":
                        raise ValueError("we do not take everybody")
                connection.commit()
                print(f"{name} has signed up")
            except ValueError as refused:
                connection.rollback()
                print(f"{name} has not: {refused}")


main(*sys.argv[1:])
