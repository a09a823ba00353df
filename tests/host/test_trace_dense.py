"""Recording from a dense model: one prefill tells what every decode step would select."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from typer.testing import CliRunner

from nearkv.cli.trace import app
from nearkv.trace.dense import record_dense
from nearkv.trace.format import TraceError, load

SMALL = {
    "vocab_size": 97, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 1024,
}  # fmt: skip


def llama():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, **SMALL))


def attention_of_decode(model, ids, steps):
    """Attention weights [L, H, n] of each of the last ``steps`` positions, decoded one by one with a KV cache."""
    model.set_attn_implementation("eager")
    cache = model(ids[:, :-steps], use_cache=True).past_key_values
    weights = []
    for position in range(ids.shape[1] - steps, ids.shape[1]):
        out = model(ids[:, position : position + 1], past_key_values=cache, output_attentions=True)
        weights.append(torch.cat([layer[0, :, 0][None] for layer in out.attentions]).numpy())
    return weights


@torch.no_grad()
def test_rankings_agree_with_token_by_token_decoding():
    model, steps = llama(), 5
    ids = torch.randint(0, 97, (1, 500), generator=torch.Generator().manual_seed(1))
    trace = record_dense(model, ids, steps, budget=192, prompt_queries=16, model_name="small", text="random")
    assert trace.ranked.shape == (16 + 5, 2, 2, 9)
    assert trace.info.kv_block_bytes == 2 * 32 * 32 * 4
    for step, weights in enumerate(attention_of_decode(model, ids, steps)):
        n = weights.shape[2]
        padded = np.pad(weights, ((0, 0), (0, 0), (0, -n % 32)))
        share = padded.reshape(2, 2, 2, -1, 32).sum(axis=4).sum(axis=2)  # layer, KV head, block: sum over the group
        last = share.shape[2] - 1
        for layer in range(2):
            for stream in range(2):
                row = trace.ranked[16 + step, layer, stream]
                assert row[:3].tolist() == [0, last - 1, last]
                best = np.argsort(-share[layer, stream, 1 : last - 1], kind="stable")[:6] + 1
                assert set(row[3:9]) == set(best)
                found = trace.priority[16 + step, layer, stream] / 2**24
                np.testing.assert_allclose(found, share[layer, stream, row], atol=1e-5)
        assert trace.tokens[16 + step] == n


@torch.no_grad()
def test_only_layers_that_see_the_whole_context_are_recorded_and_the_model_is_left_as_it_was():
    torch.manual_seed(0)
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    config = Gemma3TextConfig(num_hidden_layers=3, layer_types=kinds, sliding_window=64, **SMALL)
    model = Gemma3ForCausalLM(config)
    before, done = model.config._attn_implementation, []
    ids = torch.randint(0, 97, (1, 400))
    trace = record_dense(model, ids, 4, budget=160, prompt_queries=16, progress=done.append)
    assert trace.info.layers == 1
    assert done == [1]
    assert model.config._attn_implementation == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": 96}, "leaves no block"),
        ({"steps": 400}, "too few"),
        ({"steps": 0}, "a decode step or more"),
        ({"ids": torch.zeros(2, 400).long()}, "too few"),
    ],
)
def test_what_cannot_be_recorded_is_named(change, message):
    arguments = {"ids": torch.zeros(1, 400).long(), "steps": 4, "budget": 160} | change
    with pytest.raises(TraceError, match=message):
        record_dense(llama(), arguments["ids"], arguments["steps"], budget=arguments["budget"])


def test_the_command_records_a_text(tmp_path):
    folder, text, output = tmp_path / "model", tmp_path / "text.txt", tmp_path / "out.trace"
    llama().save_pretrained(folder)
    words = Tokenizer(WordLevel({f"w{i}": i for i in range(97)}, unk_token="w0"))
    words.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
    text.write_text(" ".join(f"w{i * i % 97}" for i in range(400)))
    arguments = ["record", str(text), str(output), "--model", str(folder), "--steps", "6", "--budget", "160"]
    result = CliRunner().invoke(app, [*arguments, "--context", "400"])
    assert result.exit_code == 0, result.output
    trace = load(output)
    assert (trace.info.model, trace.info.text, trace.info.layers) == ("model", "text.txt", 2)
    assert trace.tokens[-1] == 400

    short = CliRunner().invoke(app, [*arguments, "--context", "401"])
    assert short.exit_code == 1
    assert "has 400 tokens, --context 401 were asked for" in short.output
