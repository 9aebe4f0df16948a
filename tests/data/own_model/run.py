"""run.py OUT.safetensors [STEP]: two parameters, and what an optimizer keeps of them; the step of the second is STEP, or 7 as that of the first."""
import sys

import tensors

steps, run = {"gate": 7, "up": float(sys.argv[2]) if len(sys.argv) > 2 else 7}, {}
for n, (name, step) in enumerate(steps.items()):
    for m, key in enumerate((name, f"optimizer.state.{name}.exp_avg", f"optimizer.state.{name}.exp_avg_sq")):
        run[key] = ([2, 3], [100 * m + 10 * n + i for i in range(6)])
    run[f"optimizer.state.{name}.step"] = ([], [step])
tensors.write(sys.argv[1], run)
