#!/usr/bin/env python3
"""The scripts that the recipes in docs/ print, each run as it stands, by the shell that would run it: on runs that are whole, again in the folder that
the first time has left, and on runs whose newest step is damaged.

    recipes.py DCPCTL
"""
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import yaml
except ImportError:  # Debian's package is for Debian's python3, which need not be the first in $PATH
    if sys.executable == "/usr/bin/python3":
        raise
    os.execv("/usr/bin/python3", ["/usr/bin/python3", "-B", *sys.argv])

sys.path.insert(0, str(Path(__file__).resolve().parent))

import shown  # noqa: E402

DCPCTL = os.path.abspath(sys.argv[1])
FENCE = re.compile(r"In `([^`]+)`:\n\n```(?:sh|yaml)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SCRIPTS = {name: text for page in shown.pages() for name, text in FENCE.findall((shown.ROOT / page).read_text(encoding="utf-8"))}


class Recipe(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="dcpctl-recipes-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.checkpoints, self.work = self.folder / "checkpoints", self.folder / "work"
        self.work.mkdir()
        self.shell([str(shown.ROOT / "tests/data/samples.sh"), str(self.checkpoints)], self.folder)
        for run in ("run", "llama-run"):
            shutil.rmtree(self.checkpoints / run)

    def shell(self, command, folder):
        environment = {**os.environ, "PATH": os.path.dirname(DCPCTL) + os.pathsep + os.environ["PATH"], "GITHUB_ENV": str(self.folder / "github.env")}
        return subprocess.run(["bash", *command] if isinstance(command, list) else ["bash", "-c", command], cwd=folder, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")  # fmt: skip

    def run_of(self, name, step, last):
        """A run of five steps, as the recipes call it."""
        for number in range(last - 4, last + 1):
            self.step_of(name, step, number)

    def step_of(self, name, step, number):
        shutil.copytree(self.checkpoints / step, self.checkpoints / name / f"step-{number}")

    def steps(self, name):
        return sorted(p.name for p in (self.checkpoints / name).iterdir() if p.is_dir())

    def damage(self, step):
        """Some bytes in the middle of a file."""
        file = max((self.checkpoints / step).glob("*.distcp"))
        data = bytearray(file.read_bytes())
        middle = len(data) // 2
        data[middle : middle + 200] = bytes(byte ^ 1 for byte in data[middle : middle + 200])
        file.write_bytes(data)

    def script(self, name):
        return SCRIPTS[name].replace("/checkpoints/", f"{self.checkpoints}/")

    def job(self, script):
        (self.work / "job.sh").write_text(script)
        return self.shell(["job.sh"], self.work)

    def verified_step(self):
        return Path(json.loads((self.work / "verify.json").read_text())["path"]).name


class Slurm(Recipe):
    def test_newest_step_is_exported_and_old_ones_go(self):
        self.run_of("run", "step-1000", 5)
        for _ in range(2):
            job = self.job(self.script("after.sh"))
            self.assertEqual(job.returncode, 0, job.stdout)
            self.assertTrue((self.work / "export.safetensors").exists())
            self.assertEqual(self.steps("run"), ["step-3", "step-4", "step-5"])

    def test_nothing_is_deleted_when_the_newest_step_is_damaged(self):
        self.run_of("run", "step-1000", 5)
        self.damage("run/step-5")
        job = self.job(self.script("after.sh"))
        self.assertEqual(job.returncode, 1, job.stdout)
        self.assertIn("damage: ", job.stdout)
        self.assertEqual(len(self.steps("run")), 5)
        self.assertFalse((self.work / "export.safetensors").exists())

    def test_nothing_happens_without_a_step(self):
        (self.checkpoints / "run").mkdir()
        self.assertEqual(self.job(self.script("after.sh")).returncode, 1)

    def epilog(self, **variables):
        """As Slurm starts it: without a path, and with no other variables of the job's owner."""
        programs = self.folder / "programs"
        programs.mkdir(exist_ok=True)
        (programs / "dcpctl").unlink(missing_ok=True)
        (programs / "dcpctl").symlink_to(DCPCTL)
        if os.geteuid() != 0:  # only root may become somebody
            (programs / "runuser").write_text('#!/bin/bash\nexec "${@:4}"\n')
            (programs / "runuser").chmod(0o755)
        script = self.work / "epilog.sh"
        script.write_text(self.script("/etc/slurm/epilog.sh").replace("PATH=", f"PATH={programs}:", 1))
        ran = subprocess.run(["/bin/bash", script], env={"SLURM_JOB_ID": "1", "SLURM_JOB_USER": pwd.getpwuid(os.geteuid()).pw_name,
                             "SLURM_JOB_WORK_DIR": str(self.work), **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")  # fmt: skip
        self.assertEqual((ran.returncode, ran.stdout), (0, ""))

    def test_epilog_of_each_node_leaves_one_answer(self):
        self.run_of("run", "step-1000", 5)
        for newer in 6, 7:
            self.epilog(SLURM_JOB_COMMENT=f"run={self.checkpoints}/run")
            self.assertEqual((self.work / "slurm-1.step").read_text(), f"{self.checkpoints}/run/step-5\n")
            self.step_of("run", "step-1000", newer)

    def test_epilog_without_a_whole_step_or_a_question(self):
        self.epilog()
        self.epilog(SLURM_JOB_COMMENT="for review")
        self.assertFalse((self.work / "slurm-1.step").exists())
        self.epilog(SLURM_JOB_COMMENT=f"run={self.checkpoints}/nothing")
        self.assertEqual((self.work / "slurm-1.step").read_text(), "")


class Ci:
    """What the recipes for each CI must do: `pipeline` runs one."""

    def publishes(self, step):
        ran = self.pipeline()
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertEqual(self.verified_step(), step)
        self.assertEqual(json.loads((self.work / "publish/config.json").read_text())["architectures"], ["LlamaForCausalLM"])
        self.assertEqual(self.shell("dcpctl verify publish --against publish.json", self.work).returncode, 0)

    def test_second_pipeline_in_the_same_folder_publishes_the_new_step(self):
        self.run_of("llama-run", "llama-step-1000", 5)
        self.publishes("step-5")
        self.step_of("llama-run", "llama-step-1000", 6)
        self.publishes("step-6")

    def test_damage_publishes_nothing(self):
        self.run_of("llama-run", "llama-step-1000", 5)
        self.publishes("step-5")
        self.damage("llama-run/step-5")
        self.assertEqual(self.pipeline().returncode, 1)
        self.assertEqual(self.verified_step(), "step-5")
        self.assertEqual([p.name for p in self.work.iterdir() if p.name.startswith("publish")], [])

    def test_no_step_publishes_nothing(self):
        (self.checkpoints / "llama-run").mkdir()
        self.assertEqual(self.pipeline().returncode, 1)

    def exported(self, variables):
        return "".join(f"export {name}={value}\n" for name, value in variables.items())


class GitHub(Ci, Recipe):
    def pipeline(self):
        """Each step in a shell of its own; $GITHUB_ENV is what later ones get."""
        job = yaml.safe_load(self.script(".github/workflows/publish.yml"))["jobs"]["publish"]
        (self.folder / "github.env").write_text("")
        for step in job["steps"]:
            if "run" not in step:
                continue
            given = self.exported(job["env"]) + f"set -a; . {self.folder}/github.env; set +a\n"
            ran = self.shell(["-eo", "pipefail", "-c", given + step["run"]], self.work)
            if ran.returncode != 0:
                break
        return ran


class GitLab(Ci, Recipe):
    def pipeline(self):
        """One shell for all lines."""
        job = yaml.safe_load(self.script(".gitlab-ci.yml"))["publish"]
        return self.shell(["-eo", "pipefail", "-c", self.exported(job["variables"]) + "\n".join(job["script"])], self.work)


class Pages(unittest.TestCase):
    def test_every_script_is_run_here(self):
        fences = [f for page in shown.pages() for f in re.findall(r"^```(?:sh|yaml)\n.*?^```", (shown.ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)]
        self.assertEqual((len(fences), sorted(SCRIPTS)), (4, [".github/workflows/publish.yml", ".gitlab-ci.yml", "/etc/slurm/epilog.sh", "after.sh"]))

    def test_our_own_workflows_call_what_is_there(self):
        """.ci/run and ./dev, jobs that need each other, and the files of workflows that call others."""
        workflows = {p: yaml.safe_load(p.read_text(encoding="utf-8"))["jobs"] for p in sorted((shown.ROOT / ".github/workflows").glob("*.yml"))}
        commands = [step["run"] for jobs in workflows.values() for job in jobs.values() for step in job.get("steps", []) if "run" in step]
        self.assertTrue({"bash .ci/run", "./dev check packages"} <= set(commands), commands)
        for jobs in workflows.values():
            for job in jobs.values():
                self.assertIn(job.get("needs", next(iter(jobs))), jobs)
                self.assertTrue("steps" in job or (shown.ROOT / job["uses"]).exists(), job)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
