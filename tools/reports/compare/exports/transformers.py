"""Transformers: BERT, GPT-2, ViT, a decoder like Llama's, an encoder like Whisper's."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Size:
    """The size of a transformer."""

    layers: int
    width: int
    heads: int
    length: int
    """Tokens, or places of an image or a sound."""
    words: int = 1000
    groups: int = 0
    """Heads of keys and values; as many as of queries if 0."""


class Attention(nn.Module):
    """Each place looks at all places, or with `causal` at those before it."""

    def __init__(self, size: Size, *, causal: bool = False, bias: bool = True):
        super().__init__()
        self.heads, self.causal = size.heads, causal
        self.width = size.width // size.heads
        self.query = nn.Linear(size.width, size.width, bias)
        self.key = nn.Linear(size.width, size.width, bias)
        self.value = nn.Linear(size.width, size.width, bias)
        self.out = nn.Linear(size.width, size.width, bias)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, self.width)
        query, key, value = (
            layer(x).reshape(shape).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=self.causal
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and two linear layers, each normalised before it or after it."""

    def __init__(
        self,
        size: Size,
        *,
        causal: bool = False,
        before: bool = True,
        approximate: str = "none",
    ):
        super().__init__()
        self.before = before
        self.attention = Attention(size, causal=causal)
        self.norms = nn.ModuleList([nn.LayerNorm(size.width) for _ in range(2)])
        self.layers = nn.Sequential(
            nn.Linear(size.width, 4 * size.width),
            nn.GELU(approximate),
            nn.Linear(4 * size.width, size.width),
        )

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.norms
        if self.before:
            x = x + self.attention(first(x))
            return x + self.layers(second(x))
        x = first(x + self.attention(x))
        return second(x + self.layers(x))


class Bert(nn.Module):
    """Tokens and their segments in, a vector for each token and one for all out."""

    def __init__(self, size: Size):
        super().__init__()
        self.words = nn.Embedding(size.words, size.width)
        self.places = nn.Embedding(size.length, size.width)
        self.segments = nn.Embedding(2, size.width)
        self.norm = nn.LayerNorm(size.width)
        blocks = [Block(size, before=False) for _ in range(size.layers)]
        self.blocks = nn.Sequential(*blocks)
        self.pooler = nn.Linear(size.width, size.width)

    def forward(self, tokens: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(tokens.shape[1])
        x = self.words(tokens) + self.segments(segments) + self.places(places)
        x = self.blocks(self.norm(x))
        return x, torch.tanh(self.pooler(x[:, 0]))


class Gpt2(nn.Module):
    """Tokens in, a number for each word that may follow each of them out."""

    def __init__(self, size: Size):
        super().__init__()
        self.words = nn.Embedding(size.words, size.width)
        self.places = nn.Embedding(size.length, size.width)
        self.blocks = nn.Sequential(
            *(Block(size, causal=True, approximate="tanh") for _ in range(size.layers))
        )
        self.norm = nn.LayerNorm(size.width)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        # The table of words also reads them back.
        scale = self.words.embedding_dim**-0.5
        return self.norm(self.blocks(x)) @ self.words.weight.T * scale


class Vit(nn.Module):
    """An image in, a number for each of 1000 classes out."""

    def __init__(self, size: Size, image: int, patch: int):
        super().__init__()
        self.patches = nn.Conv2d(3, size.width, patch, patch)
        self.first = nn.Parameter(torch.randn(1, 1, size.width))
        count = (image // patch) ** 2 + 1
        self.places = nn.Parameter(torch.randn(1, count, size.width))
        self.blocks = nn.Sequential(*(Block(size) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, 1000)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


class RmsNorm(nn.Module):
    """A vector over the root of its mean square, scaled."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        square = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(square + 1e-6) * self.weight


class LlamaBlock(nn.Module):
    """Grouped attention with rotated queries and keys, then a gated layer."""

    def __init__(self, size: Size):
        super().__init__()
        self.heads, self.groups = size.heads, size.groups or size.heads
        self.width = size.width // size.heads
        shared = self.groups * self.width
        self.query = nn.Linear(size.width, size.width, False)
        self.key = nn.Linear(size.width, shared, False)
        self.value = nn.Linear(size.width, shared, False)
        self.out = nn.Linear(size.width, size.width, False)
        self.gate = nn.Linear(size.width, 3 * size.width, False)
        self.up = nn.Linear(size.width, 3 * size.width, False)
        self.down = nn.Linear(3 * size.width, size.width, False)
        self.norms = nn.ModuleList([RmsNorm(size.width) for _ in range(2)])

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        first, second = self.norms
        x = x + self.attend(first(x), cos, sin, mask)
        y = second(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    def attend(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.shape
        query = self.query(x).reshape(batch, length, self.heads, self.width)
        shape = (batch, length, self.groups, self.width)
        key, value = self.key(x).reshape(shape), self.value(x).reshape(shape)
        query, key = (rotated(each.transpose(1, 2), cos, sin) for each in (query, key))
        times = self.heads // self.groups
        key = key.repeat_interleave(times, 1)
        value = value.transpose(1, 2).repeat_interleave(times, 1)
        scores = query @ key.transpose(2, 3) * self.width**-0.5 + mask
        mixed = torch.softmax(scores, -1) @ value
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pairs of elements, half a vector apart, turned by angles."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class Llama(nn.Module):
    """Tokens in, a number for each word that may follow each of them out."""

    def __init__(self, size: Size):
        super().__init__()
        self.words = nn.Embedding(size.words, size.width)
        self.blocks = nn.ModuleList([LlamaBlock(size) for _ in range(size.layers)])
        self.norm = RmsNorm(size.width)
        self.head = nn.Linear(size.width, size.words, False)
        width = size.width // size.heads
        self.register_buffer(
            "speeds", 10000.0 ** (-torch.arange(0, width, 2).float() / width)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        angles = torch.arange(length).float()[:, None] * self.speeds
        angles = torch.cat([angles, angles], -1)
        mask = torch.full((length, length), float("-inf")).triu(1)
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x, angles.cos(), angles.sin(), mask)
        return self.head(self.norm(x))


class WhisperEncoder(nn.Module):
    """A spectrum of 80 lines in, a vector for each pair of its steps out."""

    def __init__(self, size: Size):
        super().__init__()
        self.first = nn.Conv1d(80, size.width, 3, padding=1)
        self.second = nn.Conv1d(size.width, size.width, 3, stride=2, padding=1)
        self.places = nn.Parameter(torch.randn(size.length, size.width))
        self.blocks = nn.Sequential(*(Block(size) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(size.width)

    def forward(self, spectrum: Tensor) -> Tensor:
        x = functional.gelu(self.first(spectrum))
        x = functional.gelu(self.second(x)).transpose(1, 2)
        return self.norm(self.blocks(x + self.places))
