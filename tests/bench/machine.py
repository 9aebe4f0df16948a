"""What figures are worth nothing without."""
import os
import subprocess
import time
from pathlib import Path


def facts(dcpctl, folder):
    cpu = next((line.split(": ")[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), os.uname().machine)
    filesystem = subprocess.run(["findmnt", "-no", "FSTYPE", "--target", folder], stdout=subprocess.PIPE, text=True).stdout.strip()
    version = subprocess.run([dcpctl, "--version"], stdout=subprocess.PIPE, text=True).stdout.splitlines()[:2]
    return f"{os.cpu_count()} x {cpu}, Linux {os.uname().release}, {filesystem}; {'; '.join(version)}; {time.strftime('%Y-%m-%d')}"
