"""image.py CONFIG.json FOLDER: the config.json of a model of images whose text model has that configuration, but for its type."""
import json
import os
import sys

with open(sys.argv[1]) as file:
    text = json.load(file) | {"model_type": "mistral"}
os.makedirs(sys.argv[2])
with open(sys.argv[2] + "/config.json", "w") as file:
    json.dump({"architectures": ["OtterForConditionalGeneration"], "dtype": text.pop("dtype"), "image_token_index": 10, "model_type": "otter",
               "text_config": text, "tie_word_embeddings": False, "vision_config": {"model_type": "pixtral"}}, file, indent=2)  # fmt: skip
    file.write("\n")
