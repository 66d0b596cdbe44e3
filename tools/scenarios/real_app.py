"""The application of the scenarios in `rows.waits`: asks a real server with a client that applications use.

CLIENT names the client, OUTSIDE has the server's address, `HOST:PORT`. `io_ms` is how long the server works on a
request, with requests how long a client waits for it.
"""

import os
import threading
import time
from collections.abc import Callable
from importlib import import_module
from urllib.parse import parse_qs

HOST, PORT = os.environ["OUTSIDE"].split(":")
OWN = threading.local()


def psycopg2() -> Callable[[float], None]:
    """A query on the thread's own connection."""
    psycopg2 = import_module("psycopg2")

    def query(seconds: float) -> None:
        if not hasattr(OWN, "connection"):
            OWN.connection = psycopg2.connect(host=HOST, port=PORT, user="postgres", connect_timeout=5)
            OWN.connection.autocommit = True
        with OWN.connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(%s)", (seconds,))

    return query


def sqlalchemy() -> Callable[[float], None]:
    """A query on a connection of SQLAlchemy's pool, whose default size is 5."""
    sqlalchemy = import_module("sqlalchemy")

    engine = sqlalchemy.create_engine(f"postgresql+psycopg2://postgres@{HOST}:{PORT}/postgres", max_overflow=0)

    def query(seconds: float) -> None:
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text("SELECT pg_sleep(:seconds)"), {"seconds": seconds})

    return query


def django() -> Callable[[float], None]:
    """A transaction that locks one row while it works."""
    conf, db, django = map(import_module, ("django.conf", "django.db", "django"))

    database = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres"}
    conf.settings.configure(DATABASES={"default": {**database, "HOST": HOST, "PORT": PORT}})
    django.setup()

    class Stock(db.models.Model):  # type: ignore[misc,name-defined]
        left = db.models.IntegerField(default=0)

        class Meta:
            app_label = "shop"

    with db.connection.schema_editor() as editor:
        editor.create_model(Stock)
    Stock.objects.create(pk=1)
    db.connection.close()  # it would be shared by all workers

    def sell(seconds: float) -> None:
        with db.transaction.atomic():
            stock = Stock.objects.select_for_update().get(pk=1)
            time.sleep(seconds)
            stock.left += 1
            stock.save()

    return sell


def redis() -> Callable[[float], None]:
    """A command that keeps Redis busy, from redis-py's pool of connections with a timeout."""
    redis = import_module("redis")

    client = redis.Redis(HOST, int(PORT), socket_timeout=30, socket_connect_timeout=5)

    def sleep(seconds: float) -> None:
        client.execute_command("DEBUG", "SLEEP", str(seconds))

    return sleep


def requests() -> Callable[[float], None]:
    requests = import_module("requests")

    def get(seconds: float) -> None:
        try:
            requests.get(f"http://{HOST}:{PORT}/", timeout=seconds)
        except requests.exceptions.Timeout:
            return

    return get


ask = {client.__name__: client for client in (psycopg2, sqlalchemy, django, redis, requests)}[os.environ["CLIENT"]]()


def application(environ, start_response):  # type: ignore[no-untyped-def]
    ask(float(parse_qs(environ["QUERY_STRING"])["io_ms"][0]) / 1000)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\n"]
