"""Engines behind the I/O seam that fail or dawdle on purpose."""

from __future__ import annotations

import threading

from nearkv_drivers.io_engine import default_engine


class FaultyEngine:
    """The pool engine, but batches that ``fails(write, file offsets)`` picks report ``failure`` (errno)."""

    def __init__(self, fails, failure: int) -> None:
        self._engine = default_engine()
        self._fails = fails
        self._failure = failure

    def submit(self, fd, write, offsets, addresses, lengths):
        batch = self._engine.submit(fd, write, offsets, addresses, lengths)
        failure = (self._failure, int(offsets[0])) if len(offsets) and self._fails(write, offsets) else None

        class Faulty:
            def wait(self):
                return batch.wait() or failure

            def done(self):
                return batch.done()

        return Faulty()


class HeldWrites:
    """The pool engine, but writes submitted after :meth:`hold` start only at :meth:`release`."""

    def __init__(self) -> None:
        self._engine = default_engine()
        self._open = threading.Event()
        self._open.set()
        self._held = []

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()
        for start in self._held:
            start()

    def submit(self, fd, write, offsets, addresses, lengths):
        if not write or self._open.is_set():
            return self._engine.submit(fd, write, offsets, addresses, lengths)
        engine, released = self._engine, self._open
        started = []

        class Held:
            def wait(self):
                released.wait()
                return started[0].wait()

            def done(self):
                return bool(started) and started[0].done()

        self._held.append(lambda: started.append(engine.submit(fd, write, offsets, addresses, lengths)))
        return Held()
