#!/usr/bin/env python3
"""A small PyTorch training on the CPU: forward, backward on autograd's threads, an optimiser, batches from worker
processes made by fork. Needs torch (and, for the workers, nothing else).

    torch_training.py [--seconds S] [--workers N] [--threads N] [--convolutions]

Prints one JSON line at its end: steps, and CPU seconds of this process and of its children.
"""
import argparse
import json
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Tokens(Dataset):
    """Made-up sequences, made by pure Python work in the workers."""

    def __init__(self, vocabulary, length):
        self.vocabulary, self.length = vocabulary, length

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        return make_sequence(index, self.vocabulary, self.length)


def make_sequence(seed, vocabulary, length):
    tokens = []
    for _ in range(length):
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        tokens.append(seed % vocabulary)
    return torch.tensor(tokens)


class Model(nn.Module):
    def __init__(self, vocabulary, width, convolutions):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.mix = nn.Conv1d(width, width, 3, padding=1) if convolutions else nn.Identity()
        self.block = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        hidden = self.embedding(tokens)
        hidden = self.mix(hidden.transpose(1, 2)).transpose(1, 2)
        return self.head(self.block(hidden))


def train_step(model, optimiser, tokens):
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of OpenMP; with more than one they spin while they wait")
    parser.add_argument("--convolutions", action="store_true", help="some of the work in code made at run time")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    model = Model(512, 128, arguments.convolutions)
    optimiser = torch.optim.AdamW(model.parameters())
    loader = DataLoader(Tokens(512, 129), batch_size=8, num_workers=arguments.workers)
    end = time.monotonic() + arguments.seconds
    steps = 0
    for tokens in loader:
        train_step(model, optimiser, tokens)
        steps += 1
        if time.monotonic() >= end:
            break
    del loader
    times = os.times()
    print(json.dumps({"workload": "torch_training", "steps": steps, "cpu_s": times.user + times.system,
                      "children_cpu_s": times.children_user + times.children_system}))


if __name__ == "__main__":
    main()
