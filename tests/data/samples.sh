#!/bin/sh
# samples.sh FOLDER: small checkpoints under the names that README.md, docs/ and the help use. Takes dcpctl and python3 (without torch) from $PATH.
set -eu
data=$(cd "$(dirname "$0")" && pwd)
mkdir "$1"
cd "$1"

cp -r "$data/fsdp2_ws4/ckpt" step-1000                          # a small transformer with AdamW, saved by 4 FSDP2 ranks
mkdir run && cp -r step-1000 run/ && cp -r step-1000 run/step-500
cp -r step-1000 run/step-1500 && rm run/step-1500/.metadata     # a save that crashed
dcpctl consolidate step-1000 base.safetensors -q --model-only   # what a trainer expects
mkdir base-model && echo '{}' >base-model/config.json && echo '{}' >base-model/tokenizer.json
dcpctl reshard step-1000 rank-local-ckpt -q --world-size 1      # each rank with metadata of its own
mv rank-local-ckpt/.metadata rank-local-ckpt/__0.metadata

# A tiny Llama: published, and as torchtitan would save a run of it on 4 ranks, optimizer and all.
python3 -B "$data/own_model/llama.py" llama-base llama.tmp.safetensors
dcpctl convert llama.tmp.safetensors llama-step-1000 -q --map llama.torchtitan --config llama-base/config.json --model-root model --world-size 4
rm llama.tmp.safetensors
mkdir llama-run && cp -r llama-step-1000 llama-run/step-1000

python3 -B "$data/own_model/otter.py" otter                      # the model of dcpctl-maps(7)
