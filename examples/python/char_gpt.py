"""A character-level GPT in plain PyTorch. The training step is compiled as it is; --eager goes without."""
import argparse
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import windrow as wr

TEXT = """Hey diddle diddle, the cat and the fiddle, the cow jumped over the moon;
the little dog laughed to see such fun, and the dish ran away with the spoon.
""" * 8


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, width))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, letters, width=32, heads=4, layers=2, length=32):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.letter(x) + self.place(torch.arange(x.shape[1])))))


def main(eager, steps, length=32, batch=16):
    torch.manual_seed(0)
    letters = sorted(set(TEXT))
    text = torch.tensor([letters.index(c) for c in TEXT])
    model = Gpt(len(letters), length=length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def step(x, y):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    step = step if eager else wr.torch.compile(step)
    for i in range(steps + 1):
        starts = torch.randint(0, len(text) - length - 1, (batch,))
        x = torch.stack([text[s:s + length] for s in starts])
        y = torch.stack([text[s + 1:s + length + 1] for s in starts])
        loss = float(step(x, y))
        if i == 0:
            begin = time.perf_counter()  # the first step compiles
        elif i % 100 == 0:
            print(f"step {i}: loss {loss:.3f}, {(time.perf_counter() - begin) / i * 1e6:.0f} us a step")
    print("".join(letters[int(c)] for c in write_on(model, text[:length], 100)))
    return loss


def write_on(model, start, count):
    letters = start[None]
    with torch.no_grad():
        for _ in range(count):
            letters = torch.cat([letters, model(letters[:, -len(start):])[:, -1:].argmax(-1)], 1)
    return letters[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--eager", action="store_true", help="PyTorch alone")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    sys.exit(0 if main(options.eager, options.steps) < 1.0 else 1)
