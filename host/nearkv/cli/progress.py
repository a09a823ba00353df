"""Progress bars of the commands: prefill, write-behind and decode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from nearkv.cache.tiered import TieredCache
from nearkv.report import human_bytes
from nearkv.session import Progress as Advance


@contextmanager
def tokens_bar(console: Console, label: str, total: int, cache: TieredCache | None = None) -> Iterator[Advance]:
    """A bar of ``total`` tokens. With a cache it also shows what write-behind has put on the drive."""
    columns = (
        TextColumn("{task.description:<18}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[written]}"),
    )
    with Progress(*columns, console=console, transient=not console.is_terminal) as progress:
        task = progress.add_task(label, total=total, written="")

        def advance(tokens: int) -> None:
            written = "" if cache is None else f"{human_bytes(cache.drive.telemetry().host_to_drive)} written"
            progress.update(task, advance=tokens, written=written)

        yield advance
