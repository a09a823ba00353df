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
    sys.exit(run())


def _register() -> None:
    """Mount the commands. Their imports are heavy (torch, transformers), so they happen here."""
    from nearkv.cli import compare, demo, generate, trace
    from nearkv_drivers.cards.cli import app as device_app
    from nearkv_sim.cli import app as sim_app

    if not app.registered_commands:
        for command in (generate.generate, compare.compare, demo.demo):
            app.command()(command)
        app.add_typer(trace.app, name="trace")
        app.add_typer(device_app, name="device")
        app.add_typer(sim_app, name="sim")


def run() -> int:
    """Run the command line that ``sys.argv`` holds; returns the exit code."""
    # No model hub is reached at run time: what is not on this machine is an error, not a download.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    err = Console(stderr=True, soft_wrap=True)
    try:
        _register()
        code = int(app(standalone_mode=False) or 0)
        if code == INTERRUPTED:  # how newer versions of typer report a Ctrl-C inside a command; older ones abort
            raise KeyboardInterrupt
        return code
    except (KeyboardInterrupt, typer.Abort):
        err.print("interrupted: nothing was kept", style="bold")
        return INTERRUPTED
    except _user_errors() as error:
        err.print(f"error: {error}", style="bold red", highlight=False, markup=False)
        return 1
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        err.print(f"error: {error.strerror or error}{where}", style="bold red", highlight=False, markup=False)
        return 1
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("click", "typer") and hasattr(error, "format_message"):
            if said := error.format_message():  # nothing where the help was printed instead
                err.print(f"error: {said}", style="bold red", highlight=False, markup=False)
            return 2
        raise


def _user_errors() -> tuple[type[Exception], ...]:
    from nearkv.errors import USER_ERRORS
    from nearkv.loading import ModelError

    return (*USER_ERRORS, ModelError)
