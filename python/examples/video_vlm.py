"""A vision-language model that watches a camera: computes the tokens that changed, and looks next at what it attends to.

    python python/examples/video_vlm.py front
    python python/examples/video_vlm.py front --model Qwen/Qwen3-VL-2B-Instruct --ask "Where is the sign?"

Needs a running daemon, PyTorch and transformers. Without --model the model is tiny and has random weights: everything runs,
and its answers mean nothing. Prints a line a second.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

import foveate
from foveate.models import VideoEncoder, qwen3_vl

#: Of the tiny model: words that it knows, and those that stand for a picture.
WORDS, IMAGE, START, END = 64, 60, 62, 63


class Watcher:
    """Answers one question about frame after frame.

    :ivar encoder: the vision tower.
    """

    def __init__(self, name: str | None, question: str) -> None:
        """:param name: a Qwen3-VL of Hugging Face, or None for a tiny model with random weights."""
        self._model = (tiny_model() if name is None else loaded(name)).eval()
        self._tokenizer: Any = None
        if name is None:
            self._before, self._after = [1, START], [END, *(3 + ord(letter) % 50 for letter in question)]
        else:
            from transformers import AutoTokenizer

            self._tokenizer = AutoTokenizer.from_pretrained(name)
            asked = f"<|vision_end|>{question}<|im_end|>\n<|im_start|>assistant\n"
            self._before = self._tokenizer("<|im_start|>user\n<|vision_start|>").input_ids
            self._after = self._tokenizer(asked).input_ids
        self.encoder = VideoEncoder(self._model.model.visual)

    def watch(self, frame: foveate.Frame) -> tuple[str, Any]:
        """The first word of the answer, and how much it comes from each token, [N]."""
        image, config = qwen3_vl.tokens(frame), self._model.config
        count = len(frame)
        prompt = torch.tensor([[*self._before, *[config.image_token_id] * count, *self._after]])
        output = self.encoder.encode(frame)
        arguments = qwen3_vl.model_arguments(self._model, prompt, image, output=output)
        found = self._model(**arguments, output_attentions=True)
        word = int(found.logits[0, -1].argmax())
        scores = found.attentions[-1][0, :, -1, prompt[0] == config.image_token_id].mean(0).float()
        return (str(word) if self._tokenizer is None else self._tokenizer.decode([word])), scores


def loaded(name: str) -> Any:
    """A model whose attention can be read."""
    from transformers import Qwen3VLForConditionalGeneration

    return Qwen3VLForConditionalGeneration.from_pretrained(name, dtype="auto", attn_implementation="eager")


def tiny_model() -> Any:
    """A Qwen3-VL with random weights."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    torch.manual_seed(0)
    vision = dict(depth=4, hidden_size=64, intermediate_size=128, num_heads=4, out_hidden_size=64)
    text = dict(
        vocab_size=WORDS,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=24,
        bos_token_id=1,
        eos_token_id=2,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 4, 4]},
    )
    config = Qwen3VLConfig(
        vision_config={**vision, "deepstack_visual_indexes": [1]},
        text_config=text,
        image_token_id=IMAGE,
        video_token_id=IMAGE + 1,
        vision_start_token_id=START,
        vision_end_token_id=END,
    )
    model = Qwen3VLForConditionalGeneration(config)
    model.set_attn_implementation("eager")
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stream", help="a stream of the daemon, such as front")
    parser.add_argument("--model", help="a Qwen3-VL of Hugging Face, such as Qwen/Qwen3-VL-2B-Instruct")
    parser.add_argument("--ask", default="What is here?", help="the question (default: %(default)s)")
    parser.add_argument("--budget", type=int, default=273, help="tokens of a frame (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so long")
    parser.add_argument("--socket", help="the daemon's socket")
    given = parser.parse_args()

    watcher = Watcher(given.model, given.ask)
    view = foveate.open_view(given.stream, given.socket, patch=32, budget=given.budget, normalisation="siglip")
    started = told = time.monotonic()
    frames, done = 0, (0, 0)
    with view, torch.no_grad():
        for frame in view:
            word, scores = watcher.watch(frame)
            age_ms = frame.age_ns / 1e6
            looking = view.attend_tokens(frame, scores)
            frames += 1
            now = time.monotonic()
            if now - told >= 1:
                total = watcher.encoder.tokens, watcher.encoder.computed
                share = (total[1] - done[1]) / (total[0] - done[0])
                print(
                    f"{frames} frames, {share:.0%} of {len(frame)} tokens computed, {age_ms:.0f} ms from capture to answer, "
                    f"looks at ({looking.x:.0f}, {looking.y:.0f}): {word}",
                    flush=True,
                )
                frames, done, told = 0, total, now
            if now - started >= given.seconds:
                return


if __name__ == "__main__":
    main()
