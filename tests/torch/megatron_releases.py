#!/usr/bin/env python3
"""Maps of Megatron-Core read what its releases name their parameters: the sharded state dicts of their own models, published and loaded by transformers.

    megatron_releases.py DCPCTL FOLDER [RELEASE]

FOLDER/megatron-RELEASE has the package, which ./dev check releases puts there. Its models are built, not run, and what it wants of a GPU stands in as
nothing; its savers do not know the newest torch, so that torch saves its sharded tensors as they describe themselves.
"""
import contextlib
import functools
import inspect
import subprocess
import sys
import tempfile
import types
import warnings
from pathlib import Path
from unittest import mock

warnings.filterwarnings("ignore")
sys.path.insert(0, str(Path(__file__).resolve().parent))
import megatron_core as newest  # noqa: E402

DCPCTL, FOLDER, ONLY = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
DENSE = ["llama", "llama_tied", "mistral", "qwen2", "smollm3", "qwen3", "phi3"]
# Before 0.12 experts of another width than the layer's, and before 0.11 any, need Transformer Engine, which needs a GPU.
RELEASES = {"0.10.0": DENSE, "0.11.0": [*DENSE, "mixtral"], "0.12.3": [*DENSE, "mixtral", "qwen3_moe", "deepseek_v3", "glm4_moe"],
            "0.14.0": [*DENSE, "mixtral", "qwen3_moe", "deepseek_v3", "glm4_moe"]}  # fmt: skip


def without(function, names=None):
    """The function that ignores what arguments it does not know."""
    known = names or inspect.signature(function).parameters
    return functools.wraps(function)(lambda *args, **kwargs: function(*args, **{k: v for k, v in kwargs.items() if k in known}))


def stand_in():
    """For what a release wants beside its models."""
    import packaging.version
    import torch
    import torch.utils.cpp_extension as extension

    sys.modules["pkg_resources"] = types.SimpleNamespace(packaging=packaging, parse_version=packaging.version.parse)
    extension.load = extension.load_inline = lambda *_, **__: mock.MagicMock(__file__="none")
    torch.compile = lambda function=None, **_: function or (lambda it: it)
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    import megatron.core.models.gpt.gpt_layer_specs as specs
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel import random
    from megatron.core.transformer import transformer_config
    from megatron.core.transformer.dot_product_attention import DotProductAttention

    parallel_state.initialize_model_parallel()
    random.CudaRNGStatesTracker.fork = lambda *_: contextlib.nullcontext()
    for config in (transformer_config.TransformerConfig, transformer_config.MLATransformerConfig):
        config.__init__ = without(config.__init__, config.__dataclass_fields__)
    DotProductAttention.__init__ = without(DotProductAttention.__init__)
    specs.get_gpt_layer_local_spec, specs.get_gpt_decoder_block_spec = without(specs.get_gpt_layer_local_spec), without(specs.get_gpt_decoder_block_spec)
    with contextlib.suppress(ImportError):
        from megatron.core.transformer import multi_latent_attention
        from megatron.core.transformer.moe import moe_utils

        moe_utils.te_general_gemm, multi_latent_attention.TELinear = None, type("TELinear", (), {})


def save(state, folder):
    import torch
    import torch.distributed.checkpoint as dcp

    whole = {}

    def add(part):
        if isinstance(part, dict | list | tuple):
            for inner in part.values() if isinstance(part, dict) else part:
                add(inner)
        elif type(part).__name__ == "ShardedTensorFactory":
            add(part.build())
        elif type(part).__name__ == "ShardedTensor":
            data = part.data.detach().reshape(*(1,) * part.prepend_axis_num, *part.data.shape)
            all = whole.setdefault(part.key, torch.zeros(part.global_shape, dtype=part.dtype))
            all[tuple(slice(at, at + size) for at, size in zip(part.global_offset, data.shape))] = data

    add(state)
    dcp.save(whole, checkpoint_id=folder, no_dist=True)
    return len(whole)


def try_release(release):
    sys.path.insert(0, str(FOLDER / f"megatron-{release}"))
    import transformers

    stand_in()
    import megatron.core

    assert str(FOLDER) in megatron.core.__file__
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    newest.DCPCTL, failed = DCPCTL, 0
    for name in RELEASES[release]:
        family, sizes = newest.MODELS[name]
        c = getattr(transformers, f"{family}Config")(**sizes)
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            c.save_pretrained(folder)
            count = save(newest.trainer_model(c).sharded_state_dict(), folder / "ckpt")
            newest.dcpctl("consolidate", folder / "ckpt", folder / "out", "--map", "auto", "--assets", folder, "--max-shard-size", "1GB")
            loaded, info = getattr(transformers, f"{family}ForCausalLM").from_pretrained(folder / "out", output_loading_info=True)
        wrong = {what: keys for what, keys in info.items() if keys and what in ("missing_keys", "unexpected_keys", "mismatched_keys")}
        print(f"Megatron-Core {release}, {name}: {count} tensors{', FAILED: ' + str(wrong) if wrong else ''}", flush=True)
        failed += bool(wrong)
    return failed


if __name__ == "__main__":
    if ONLY:
        sys.exit(try_release(ONLY[0]))
    failures = sum(subprocess.run([sys.executable, "-B", __file__, DCPCTL, FOLDER, r]).returncode != 0 for r in RELEASES)
    print(f"{failures} failures")
    sys.exit(1 if failures else 0)
