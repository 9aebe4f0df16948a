#!/usr/bin/env python3
"""What dcpctl casts without a map has the dtypes that from_pretrained(dtype=...) gives it: of what is in memory, and of what is published.

    kept.py DCPCTL [MODEL...]    all tiny models of transformers that can be built, or those of these types

Of most models no element is computed; those of which something is kept are loaded. Exits 77 (skipped) where transformers is not installed.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

from safetensors.torch import save_file

from case import check, finish
from tiny_models import class_for, configured, facts, held, published, torch, transformers

DCPCTL, ONLY = Path(sys.argv[1]), sys.argv[2:]
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
INNER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
T5 = {"vocab_size": 96, "d_model": 32, "d_ff": 48, "d_kv": 8, "num_layers": 2, "num_heads": 4}
IMAGES = {**INNER, "image_size": 16, "patch_size": 8}
QFORMER = {**INNER, "encoder_hidden_size": 32, "vocab_size": 96}


def config_of(model_type, **inner):
    return transformers.CONFIG_MAPPING[model_type](**{k: v.to_dict() if hasattr(v, "to_dict") else v for k, v in inner.items()})


def of_several():
    """Models of models: the name of each configuration in one is its own."""
    t5 = config_of("t5", **T5)
    encodec = config_of("encodec", num_filters=4, hidden_size=8, codebook_size=16, codebook_dim=8, upsampling_ratios=[2, 2])
    decoder = {"vocab_size": 32, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 48, "num_codebooks": 2, "max_position_embeddings": 32}
    yield "MusicgenForConditionalGeneration", config_of("musicgen", text_encoder=t5, audio_encoder=encodec, decoder=config_of("musicgen_decoder", **decoder))
    yield "Blip2ForConditionalGeneration", config_of("blip-2", text_config=t5, vision_config=IMAGES, qformer_config=QFORMER)
    yield "InstructBlipForConditionalGeneration", config_of("instructblip", text_config=t5, vision_config=IMAGES, qformer_config=QFORMER)
    vision = config_of("clip_vision_model", **IMAGES)
    for text in ("glm4_moe", "bailing_hybrid", "deepseek_v4", "t5gemma"):
        yield "LlavaForConditionalGeneration", config_of("llava", text_config=configured(text, {}), vision_config=vision, image_token_index=5)
    yield "T5EncoderModel", t5
    yield "Pop2PianoForConditionalGeneration", config_of("pop2piano", **T5)
    yield "DeepseekV3ForSequenceClassification", configured("deepseek_v3", {"num_key_value_heads": 4})


def cast(source, config, out, short):
    made = subprocess.run([DCPCTL, "cast", source, out, "--dtype", short, "--config", config, "-q"], capture_output=True, text=True)
    check(made.returncode == 0, f"{source}: {made.stderr}")
    return published(out) if made.returncode == 0 else {}


def same_dtypes(name, got, wanted):
    """What is called a scale may be that of numbers of one byte, and is not cast."""
    differ = [k for k in sorted(wanted) if not k.endswith(("_scale", "_scale_2")) and (k not in got or got[k].dtype != wanted[k].dtype)]
    differ += [k for k in sorted(wanted) if wanted[k].dtype == torch.float32 and (k not in got or got[k].dtype != torch.float32) and k not in differ]
    check(not differ, f"{name}: {len(differ)} of {len(wanted)}, such as {[(k, got[k].dtype if k in got else None) for k in differ[:4]]}")


def by_names(name, model_class, config, scratch):
    """Whether anything is kept."""
    kept = False
    config.save_pretrained(scratch)
    for short, dtype in DTYPES.items():
        _, memory, of_published = held(model_class, config, dtype)
        wanted = {**memory, **of_published}
        source = scratch / short
        source.mkdir()
        save_file({k: torch.zeros(t.shape) for k, t in wanted.items()}, source / "model.safetensors", metadata={"format": "pt"})
        same_dtypes(f"{name}, {short}", cast(source, scratch / "config.json", scratch / f"{short}-out", short), wanted)
        kept |= any(t.dtype == torch.float32 for t in wanted.values())
    return kept


def by_loading(name, model, scratch):
    model.save_pretrained(scratch / "hf")
    for short, dtype in DTYPES.items():
        loaded = type(model).from_pretrained(scratch / "hf", dtype=dtype)
        loaded.save_pretrained(scratch / f"hf-{short}")
        ours, theirs = cast(scratch / "hf", scratch / "hf/config.json", scratch / f"cast-{short}", short), published(scratch / f"hf-{short}")
        same_dtypes(f"{name}, loaded, {short}", ours, theirs)
        differ = [k for k, fact in facts(ours).items() if k in theirs and ours[k].dtype == theirs[k].dtype and fact != facts({k: theirs[k]})[k]]
        check(not differ, f"{name}, loaded, {short}: values of {differ[:4]}")


def all_models():
    for model_type in ONLY or sorted(transformers.CONFIG_MAPPING):
        try:
            config = configured(model_type, {})
            yield class_for(config), config
        except Exception:  # no model of its own, or one that takes no tiny sizes
            pass
    for name, config in of_several():
        yield getattr(transformers, name), config


def tried(model_class, config):
    """The number of its elements; None where it cannot be built."""
    try:
        return sum(t.numel() for t in held(model_class, config, torch.bfloat16)[1].values())
    except Exception:
        return None


count = kept = 0
for model_class, config in all_models():
    if ONLY and config.model_type not in ONLY or not (size := tried(model_class, config)) or size > 12e6:
        continue
    name = f"{config.model_type}, {model_class.__name__}"
    with tempfile.TemporaryDirectory() as scratch:
        count += 1
        if by_names(name, model_class, config, Path(scratch)):
            kept += 1
            try:
                model = model_class(config).float()
            except Exception:  # its weights cannot be made so small
                continue
            by_loading(name, model, Path(scratch))
print(f"{count} models, of {kept} something is kept")
check(ONLY or (count > 400 and kept > 50), f"{count} models, of {kept} something is kept")
finish()
