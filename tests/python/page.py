"""All Python of docs/python.md, from top to bottom in a folder of samples; what a comment says of a value is compared.

    page.py
"""
import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import types
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / ".venv-maps"))  # transformers; ./dev test makes it
SAID = re.compile(r"#\s*(\S.*)$")
warnings.simplefilter("ignore")


def blocks(text):
    for found in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S):
        yield text[: found.start()].count("\n") + 1, found.group(1)


def stand_in_for_vllm():
    """It is not installed: the names that a loader of it takes, and nothing else."""
    loaders = {}

    class BaseModelLoader:
        def __init__(self, load_config):
            self.load_config = load_config

    def register_model_loader(name):
        return lambda loader: loaders.setdefault(name, loader)

    for name in ("vllm", "vllm.model_executor", "vllm.model_executor.model_loader", "vllm.model_executor.model_loader.base_loader"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["vllm.model_executor.model_loader"].register_model_loader = register_model_loader
    sys.modules["vllm.model_executor.model_loader.base_loader"].BaseModelLoader = BaseModelLoader
    return loaders


def told(line):
    """What its comment says an expression is, if it is a value."""
    found = SAID.search(line)
    with contextlib.suppress(ValueError, SyntaxError):
        return ast.literal_eval(found.group(1)) if found else None
    return None


def run(text, names):
    wrong = []
    for at, block in blocks(text):
        lines = block.splitlines()
        for node in ast.parse(block).body:
            is_value = isinstance(node, ast.Expr)
            code = compile(ast.Expression(node.value) if is_value else ast.Module([node], []), f"docs/python.md:{at}", "eval" if is_value else "exec")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                value = eval(code, names)
            expected = told(lines[node.end_lineno - 1])
            if is_value and expected is not None and value != expected:
                wrong.append(f"docs/python.md:{at + node.end_lineno}: {value!r}, the page says {expected!r}")
            for line in lines[node.lineno - 1 : node.end_lineno]:
                if "print(" in line and SAID.search(line).group(1) not in printed.getvalue():
                    wrong.append(f"docs/python.md:{at + node.lineno}: {line}: {printed.getvalue()!r}")
    return wrong


def main():
    loaders = stand_in_for_vllm()
    names = {"__name__": "page"}
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join([os.path.dirname(os.environ["DCPCTL_PROGRAM"]), os.environ["PATH"]])
        subprocess.run(["sh", ROOT / "tests/data/samples.sh", Path(folder, "samples")], check=True, env={**os.environ, "PATH": path})
        os.chdir(Path(folder, "samples"))
        wrong = run((ROOT / "docs/python.md").read_text(encoding="utf-8"), names)
        import torch

        got = {}
        config = types.SimpleNamespace(model_loader_extra_config={"run": "llama-run"})
        loaders["dcpctl"](config).load_weights(types.SimpleNamespace(load_weights=got.update), types.SimpleNamespace(model="llama-base"))
        if got.keys() != names["weights"].keys() or not all(torch.equal(got[k], v) for k, v in names["weights"].items()):
            wrong.append("the loader of an engine gives other tensors than state_dict()")
        loaded = names["model"].state_dict()
        if not all(torch.equal(loaded[k], v) for k, v in names["weights"].items()):
            wrong.append("transformers has other weights")
        os.chdir(ROOT)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
