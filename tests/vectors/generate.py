"""Write the golden vectors (README.md), or with ``--check`` compare them with the files that are there."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nearkv.contract import EMPTY, encode_query, encode_segment, score, top_k

from vectors.cases import Case, encode_cases, score_cases
from vectors.loader import ENCODE_MAGIC, FOLDER, SCORE_MAGIC, Array, pack

STREAM, FIRST_BLOCK = 0x0123456789ABCDEF, 1000
"""Header fields of the encode cases."""


def score_file(case: Case) -> tuple[bytes, dict[str, object]]:
    """The file of one score case and its entry in the index."""
    query, blocks = case.query, np.concatenate([s.blocks for s in case.segments])
    t0 = np.full(query.group, EMPTY, np.int32) if case.initial_total is None else case.initial_total
    scores = score(query, case.segments, t0)
    positions, priorities = top_k(scores, case.k)
    bits, runs = case.segments[0].bits, [len(s.blocks) for s in case.segments]
    words = [bits, query.group, query.width, len(runs), len(blocks), blocks.shape[1], case.k, len(positions)]
    sections: list[Array] = [np.array(runs, np.uint32), query.q, query.c, query.r, query.b, t0, blocks]
    sections += [scores.log_mass, scores.total, positions, priorities, scores.bad]
    entry: dict[str, object] = {
        "file": f"score/{case.name}.bin", "about": case.about, "bits": bits, "group": query.group,
        "width": query.width, "runs": runs, "k": case.k,
    }  # fmt: skip
    return pack(SCORE_MAGIC, [*words, len(scores.bad)], sections), entry


def encode_file(name: str, about: str, bits: int, keys: Array, queries: Array) -> tuple[bytes, dict[str, object]]:
    """The file of one encode case and its entry in the index."""
    tokens, head_dim = keys.shape
    segment = encode_segment(keys, bits, stream=STREAM, first_block=FIRST_BLOCK)
    attention_scale = head_dim**-0.5
    query = encode_query(queries, segment, attention_scale)
    token_scale = segment.blocks[:, :32].reshape(-1)[:tokens] * segment.scale
    words = [bits, head_dim, segment.width, tokens, *segment.blocks.shape, len(queries)]
    words += [STREAM & 0xFFFFFFFF, STREAM >> 32, FIRST_BLOCK]
    sections: list[Array] = [keys, segment.centre, np.array([segment.scale, attention_scale]), segment.blocks, queries]
    sections += [query.q, query.c[0], query.r[0], query.b[0], token_scale]
    entry: dict[str, object] = {
        "file": f"encode/{name}.bin", "about": about, "bits": bits, "head_dim": head_dim, "tokens": tokens,
        "group": len(queries),
    }  # fmt: skip
    return pack(ENCODE_MAGIC, words, sections), entry


def contents() -> dict[str, bytes]:
    """Every file that belongs into the folder, by its path below it."""
    files, index = {}, []
    made = [score_file(case) for case in score_cases()] + [encode_file(*case) for case in encode_cases()]
    for data, entry in made:
        files[str(entry["file"])] = data
        index.append(entry)
    files["index.json"] = ("[\n" + ",\n".join(json.dumps(entry) for entry in index) + "\n]\n").encode()
    return files


def differences() -> list[str]:
    """Paths below the folder whose file is missing, differs or does not belong there."""
    wanted = contents()
    there = {str(p.relative_to(FOLDER)) for p in FOLDER.glob("*/*.bin")} | {"index.json"}
    wrong = {name for name, data in wanted.items() if name not in there or (FOLDER / name).read_bytes() != data}
    return sorted(wrong | (there - set(wanted)))


def main() -> int:
    """Write, or compare under ``--check``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    if parser.parse_args().check:
        for name in (wrong := differences()):
            print(f"{name} differs from the golden model")
        return bool(wrong)
    for stale in FOLDER.glob("*/*.bin"):
        stale.unlink()
    for name, data in contents().items():
        (FOLDER / name).parent.mkdir(exist_ok=True)
        (FOLDER / name).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
