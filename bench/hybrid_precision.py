"""Cold K and V in 8 or 4 bits in the live cache: what it costs in text quality, what it saves on the way.

Each text is teacher-forced through a dense StaticCache and through three TieredCaches on emulated drives that differ
in ``cold_bits`` only. All prefill in pieces, as `nearkv generate` does, so that what the later pieces read of the
earlier ones counts as well. Then they decode the same tokens, one step each in turn, so that speeds compare on a
machine whose own speed drifts. Differences are to the dense cache and to the cache without cold bits.

    python bench/hybrid_precision.py MODEL TEXT TEXT... [--context 4096] [--tokens 192] [--json OUT.json]
"""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers import PreTrainedModel, StaticCache

import nearkv
from nearkv.files import write_json
from nearkv.loading import load
from nearkv.report import path_counters
from nearkv.session import Session

SETTINGS = {"full": None, "8 bits": 8, "4 bits": 4}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="model folder, .gguf file, cached hub id or the demo model's name")
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--tokens", type=int, default=192, help="teacher-forced behind the context")
    parser.add_argument("--budget", type=int, default=1024)
    parser.add_argument("--alpha", type=float, default=0.2)
    parser.add_argument("--policy", default="lookahead")
    parser.add_argument("--link", help="bandwidth of the drive's reads to simulate, such as 1GiB/s")
    parser.add_argument("--folder", type=Path, default=Path("build/bench"), help="where the drive files go")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def open_caches(model: PreTrainedModel, options: argparse.Namespace, stack: ExitStack) -> dict[str, Any]:
    """A dense cache and one TieredCache per setting."""
    room = options.context + options.tokens
    caches: dict[str, Any] = {"dense": StaticCache(config=model.config, max_cache_len=room)}
    for name, bits in SETTINGS.items():
        drive = f"emulated:{options.folder}/hybrid-{os.getpid()}-{bits}"
        config = nearkv.TierConfig(
            budget=options.budget, alpha=options.alpha, policy=options.policy, expected_tokens=room, cold_bits=bits
        )
        url = f"{drive}?link={options.link}" if options.link else drive
        caches[name] = stack.enter_context(nearkv.TieredCache(model, url, config))
    return caches


def decode(sessions: dict[str, Session], targets: list[int]) -> dict[str, tuple[list[float], list[int]]]:
    """Negative log-likelihood (nats) and best token of every target, by cache; steps in turn."""
    found: dict[str, tuple[list[float], list[int]]] = {name: ([], []) for name in sessions}
    for number, target in enumerate(targets):
        for name, session in sessions.items():
            assert session.logits is not None
            nll, best = found[name]
            nll.append(-float(torch.log_softmax(session.logits, dim=-1)[target]))
            best.append(int(session.logits.argmax()))
            if number + 1 < len(targets):
                session.step(target)
    return found


def measure(model: PreTrainedModel, ids: list[int], options: argparse.Namespace) -> dict[str, Any]:
    """One text: figures by cache."""
    prompt, targets = torch.tensor(ids[: options.context]), ids[options.context :]
    with ExitStack() as stack:
        caches = open_caches(model, options, stack)
        sessions = {name: Session(model, cache) for name, cache in caches.items()}
        for session in sessions.values():
            session.prefill(prompt)
        before = {name: path_counters(cache)["drive_to_host"] for name, cache in caches.items() if name != "dense"}
        found = decode(sessions, targets)
        result: dict[str, Any] = {}
        for name, (nll, best) in found.items():
            figures: dict[str, Any] = {"nll": sum(nll) / len(nll)}
            for other in ("dense", "full"):
                figures[f"delta_nll_to_{other}"] = (sum(nll) - sum(found[other][0])) / len(nll)
                same = sum(a == b for a, b in zip(best, found[other][1], strict=True))
                figures[f"top1_agreement_with_{other}"] = same / len(best)
            figures["tokens_per_second"] = sessions[name].tokens_per_second
            if name != "dense":
                figures |= tier_figures(caches[name], before[name], len(targets) - 1)
            result[name] = figures
    return result


def tier_figures(cache: nearkv.TieredCache, before: int, steps: int) -> dict[str, Any]:
    """What a TieredCache moved and held."""
    layers = cache.tiered_layers
    return {
        "drive_bytes_per_token": (path_counters(cache)["drive_to_host"] - before) / steps,
        "drive_bytes_per_kv_block": layers[0].geometry.drive_block_bytes,
        "dram_bytes_per_kv_block": layers[0].geometry.kv_block_bytes,
        "drive_bytes_written": path_counters(cache)["host_to_drive"],
        "hit_rate": cache.stats.hit_rate,
        "dram_bytes": cache.dram_bytes(),
        "seconds": cache.stats.seconds,
    }


def table(text: str, result: dict[str, Any]) -> Table:
    found = Table(title=text)
    for column in ("cache", "Δ nll, top-1 to dense", "Δ nll, top-1 to full", "drive bytes per token", "tokens/s"):
        found.add_column(column, justify="right")
    for name, row in result.items():
        pairs = [f"{row[f'delta_nll_to_{o}']:+.4f} {row[f'top1_agreement_with_{o}']:.3f}" for o in ("dense", "full")]
        moved = f"{row['drive_bytes_per_token']:,.0f}" if "drive_bytes_per_token" in row else "-"
        found.add_row(name, *pairs, moved, f"{row['tokens_per_second']:.1f}")
    return found


def main() -> None:
    options = parse()
    options.folder.mkdir(parents=True, exist_ok=True)
    loaded, console = load(options.model), Console()
    nearkv.attach(loaded.model)
    wanted = options.context + options.tokens
    results: dict[str, Any] = {}
    for path in options.texts:
        ids = loaded.encode(path.read_text(encoding="utf-8"))[:wanted]
        if len(ids) < wanted:
            raise SystemExit(f"{path} holds {len(ids)} tokens; --context and --tokens need {wanted}")
        results[path.name] = measure(loaded.model, ids, options)
        console.print(table(path.name, results[path.name]))
    if options.json:
        settings = {key: str(value) for key, value in vars(options).items() if key not in ("json", "texts", "folder")}
        write_json(options.json, {"settings": settings, "texts": results})


if __name__ == "__main__":
    main()
