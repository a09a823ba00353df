"""Left padding: padded tokens are not stored, every stream begins with its sequence's first real token."""

from __future__ import annotations

import torch

from nearkv.errors import UnsupportedError


def left_padding(mask: torch.Tensor | None, batch: int, length: int, known: list[int] | None) -> list[int]:
    """Padded tokens at the start of each sequence, from the prefill's ``mask`` (bool [batch, 1, n, length] or None).

    ``known`` is what an earlier chunk said of the same sequences; a sequence may have been all padding until now.
    Raises UnsupportedError for any other pattern of padding.
    """
    if mask is None:
        return known if known is not None else [0] * batch
    if mask.dtype != torch.bool or mask.ndim != 4 or mask.shape[-1] != length:
        raise UnsupportedError(
            f"nearkv takes the mask that its own mask function makes, not {mask.dtype} {list(mask.shape)}; "
            "pass a 2-d attention_mask"
        )
    # The last query sees every real token: what it does not see is padding.
    seen = mask[:, 0, -1].expand(batch, length)
    padding = (~seen).sum(dim=1)
    where = torch.arange(length, device=mask.device)
    if not torch.equal(seen, where[None] >= padding[:, None]):
        raise UnsupportedError("only left padding is supported: the attention mask has gaps or padding on the right")
    return [int(count) for count in padding.tolist()]


def realign(mask: torch.Tensor | None, padding: list[int]) -> torch.Tensor | None:
    """Move each sequence's columns of ``mask`` [batch, 1, n, length] so that its first real token is column 0."""
    if mask is None or not any(padding):
        return mask
    moved = torch.zeros_like(mask)
    for sequence, skip in enumerate(padding):
        moved[sequence, ..., : mask.shape[-1] - skip] = mask[sequence, ..., skip:]
    return moved
