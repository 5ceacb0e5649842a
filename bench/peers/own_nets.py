#!/usr/bin/env python3
"""The three nets of examples/own_nets.cpp in PyTorch, trained on the same tasks, to see how many lines each takes.

usage: bench/peers/own_nets.py           trains them (needs torch)
       bench/peers/own_nets.py --count   lines of code of each class and training, here and in C++ (docs/learning.md)
"""
import math
import pathlib
import re
import sys

if "--count" not in sys.argv:
    import torch
    from torch import nn
    from torch.nn import functional as F
else:
    class nn:  # nothing is run
        Module = object


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(16), nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x):
        z = self.before(x)
        y = x + self.attention(z, z, z, need_weights=False)[0]
        return y + self.down(F.gelu(self.up(self.between(y))))


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(12, 8)
        self.gru = nn.GRU(8, 16, batch_first=True)
        self.out = nn.Linear(16, 2)

    def forward(self, text):
        return self.out(self.gru(self.letters(text))[0][:, -1])


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(20, 8), nn.Embedding(30, 8)
        self.hidden, self.out = nn.Linear(16, 32), nn.Linear(32, 1)

    def forward(self, user, item):
        return self.out(F.relu(self.hidden(torch.cat([self.users(user), self.items(item)], 1))))


def train_blocks():
    net = nn.Sequential(nn.Linear(2, 16), Block(), Block(), nn.Linear(16, 1))
    adam = torch.optim.Adam(net.parameters(), lr=3e-3)
    for i in range(400):
        x = torch.randint(100, (16 + i % 2, 6, 2)) * 0.01
        wanted = x[:, :, :1] + x[:, :, 1:].mean(1, keepdim=True)
        loss = F.mse_loss(net(x), wanted)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return loss.item()


def train_reader():
    net = Reader()
    adam = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(300):
        text = torch.randint(12, (32, 7))
        loss = F.cross_entropy(net(text), (text[:, 0] < 6).long())
        adam.zero_grad()
        loss.backward()
        adam.step()
    return loss.item()


def train_recommender():
    net = Recommender()
    adam = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(600):
        user, item = torch.randint(20, (64,)), torch.randint(30, (64,))
        liked = (torch.sin(0.5 * user) * torch.cos(0.4 * item))[:, None]
        loss = F.mse_loss(net(user, item), liked)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return loss.item()


def lines_of(text, begin, end):
    """Of code, from the line that begins so to the one that ends it, without empty ones and comments."""
    block = re.search(rf"^{begin}.*?(?={end})", text, re.MULTILINE | re.DOTALL).group(0)
    return sum(1 for line in block.splitlines() if line.strip() and not line.strip().startswith(("//", "#", '"""')))


def count():
    here = pathlib.Path(__file__)
    python = here.read_text()
    root = here.resolve().parent.parent.parent
    cpp = (root / "examples" / "own_nets.cpp").read_text()
    by_hand = (root / "tests" / "own_modules_test.cpp").read_text()
    print("| | Windrow (C++) | by hand | PyTorch |\n|---|---|---|---|")
    for name, words in (("Block", "a transformer block"), ("Reader", "a recurrent net"), ("Recommender", "a recommender")):
        print(f"| {words} | {lines_of(cpp, 'struct ' + name, chr(10) + '};') + 1} | "
              f"{lines_of(by_hand, '(?:class|struct) ' + name, chr(10) + '};') + 1} | "
              f"{lines_of(python, 'class ' + name, chr(10) * 3)} |")
    for name, words in (("blocks", "training two of the blocks"), ("reader", "training the recurrent net")):
        print(f"| {words} | {lines_of(cpp, 'double train_' + name, chr(10) + '}') + 1} | | "
              f"{lines_of(python, 'def train_' + name, chr(10) * 3)} |")


def main():
    if "--count" in sys.argv:
        return count()
    torch.manual_seed(1)
    losses = train_blocks(), train_reader(), train_recommender()
    print("loss of two transformer blocks %.4f, of the recurrent net %.4f, of the recommender %.4f" % losses)
    assert all(map(math.isfinite, losses))


if __name__ == "__main__":
    main()
