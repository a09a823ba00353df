"""What a run cost: KV by tier, bytes by path, speed; as JSON and as tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nearkv.cache.tiered import TieredCache
from nearkv.session import Session

PATHS = (
    "drive_to_device",
    "drive_to_device_through_host",
    "drive_to_host",
    "device_to_host",
    "host_to_device",
    "host_to_drive",
)


def kv_bytes_per_token(config: Any) -> int:
    """Bytes of K and V that one token takes over all tiered layers in a dense cache of ``config``'s dtype."""
    from nearkv.models import TIERED, layer_plan

    text = config.get_text_config(decoder=True)
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    layers = sum(kind == TIERED for kind, _ in layer_plan(config))
    dtype = config.dtype
    return int(2 * layers * heads * head_dim * dtype.itemsize)


def path_counters(cache: TieredCache) -> dict[str, int]:
    """Bytes by path so far."""
    telemetry = cache.drive.telemetry()
    return {path: int(getattr(telemetry, path)) for path in PATHS}


def tier_report(cache: TieredCache) -> dict[str, Any]:
    """Where the KV lies now. ``resident_kv_fraction`` is host DRAM over what a dense cache would hold."""
    dram, full = cache.dram_bytes(), cache.full_kv_bytes()
    telemetry = cache.drive.telemetry()
    return {
        "resident_kv_fraction": sum(dram.values()) / max(full, 1),
        "full_kv_bytes": full,
        "dram_bytes": dram,
        "device_dram_bytes": telemetry.device_dram_used,
        "drive_bytes_written": telemetry.host_to_drive,
    }


def placement_report(cache: TieredCache) -> dict[str, Any]:
    """What is hot and why, what moved, and how the blocks that were not hot were read.

    ``hot_tokens_fraction`` is the share of all tokens, over all streams, that have a copy in DRAM; ``alpha`` and
    ``bits`` are those that hold now, ``cold_bits`` those of K and V on the drive (None: the model's type), ``bound``
    names what keeps more from being hot. ``bytes_read_per_byte_used`` is what the drive's alignment adds to K and V as
    they lie there.
    """
    stats, layers = cache.stats, cache.tiered_layers
    tokens = sum(sum(layer.tail.length) * layer.geometry.kv_heads for layer in layers)
    used = sum(layer.geometry.drive_payload_bytes for layer in layers)
    return {
        "policy": cache.config.policy,
        "alpha": cache.alpha,
        "bits": cache.bits,
        "cold_bits": cache.config.cold_bits,
        "bound": stats.hot_bound,
        "hot_tokens_fraction": cache.hot_tokens() / max(tokens, 1),
        "promotions": stats.promotions,
        "demotions": stats.demotions,
        "warm_blocks": stats.warm_blocks,
        "fetched_blocks_per_step": stats.misses / max(stats.steps, 1),
        "drive_reads_per_step": stats.reads / max(stats.steps, 1),
        "bytes_read_per_byte_used": sum(layer.geometry.drive_block_bytes for layer in layers) / max(used, 1),
        "events": [asdict(event) for event in stats.events],
    }


def run_report(cache: TieredCache, session: Session, before_decode: dict[str, int]) -> dict[str, Any]:
    """The report of one nearkv session: tiers, paths, selection and speed."""
    paths, steps = path_counters(cache), max(len(session.step_seconds), 1)
    capabilities, stats = cache.drive.capabilities, cache.stats
    return {
        "device": {
            "url": cache.drive.url,
            "name": capabilities.name,
            "direct_io": capabilities.direct_io,
            "p2p": capabilities.p2p,
            "simulated": capabilities.simulated,
            **cache.drive.telemetry().extra,
        },
        "config": asdict(cache.config),
        **tier_report(cache),
        "bytes_by_path": paths,
        "bytes_by_path_per_token": {path: (paths[path] - before_decode[path]) / steps for path in PATHS},
        "hit_rate": stats.hit_rate,
        "placement": placement_report(cache),
        "bad_score_blocks": stats.bad_score_blocks,
        "scoring": cache.scoring_report(),
        "decode_seconds_by_part": stats.seconds,
        "prefill_seconds": session.prefill_seconds,
        "decode_steps": len(session.step_seconds),
    }


def scoring_rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    """What a table says about the parts of scoring that are on: (figure, value)."""
    rows = []
    if (beta := report["scoring"]["beta"]) is not None:
        scored, bound = beta["host_bytes"] / max(beta["host_bytes"] + beta["drive_bytes"], 1), beta["limit"]
        rows.append(("scored by the host", f"{scored:.1%} (beta {beta['beta']:.2f}; {bound.partition(':')[0]})"))
    if (stage := report["scoring"]["first_stage"]) is not None:
        rows.append(("blocks scored after the first stage", f"{stage['scored_share']:.1%}"))
        rows.append(("selected mass that it keeps (audits)", f"{stage['kept_mass']:.2%}"))
    return rows


def human_bytes(count: float) -> str:
    """``count`` bytes with a binary unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")
