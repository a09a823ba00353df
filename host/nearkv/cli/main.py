"""The ``nearkv`` command: mounts the sub-commands and turns errors into one sentence each."""

from __future__ import annotations

import os
import sys

import typer
from rich.console import Console

app = typer.Typer(
    help="Run a language model whose context does not fit in memory: its KV cache lies on a computational drive.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

INTERRUPTED = 130


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 an error (one sentence on standard error), 2 wrong usage, 130 Ctrl-C."""
    # No model hub is reached at run time: what is not on this machine is an error, not a download.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from nearkv.cli import compare, demo, generate  # each registers its command; heavy imports happen here

    for command in (generate.generate, compare.compare, demo.demo):
        app.command()(command)
    sys.exit(run())


def run() -> int:
    """Run the command line that ``sys.argv`` holds; returns the exit code."""
    from nearkv.errors import USER_ERRORS
    from nearkv.loading import ModelError

    err = Console(stderr=True, soft_wrap=True)
    try:
        app(standalone_mode=False)
    except KeyboardInterrupt:
        err.print("interrupted: the drive file was removed", style="bold")
        return INTERRUPTED
    except typer.Exit as stop:
        return stop.exit_code
    except typer.Abort:
        return INTERRUPTED
    except (*USER_ERRORS, ModelError) as error:
        err.print(f"error: {error}", style="bold red", highlight=False, markup=False)
        return 1
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        err.print(f"error: {error.strerror or error}{where}", style="bold red", highlight=False, markup=False)
        return 1
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("click", "typer") and hasattr(error, "format_message"):
            err.print(f"error: {error.format_message()}", style="bold red", highlight=False, markup=False)
            return 2
        raise
    return 0
