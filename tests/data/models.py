"""The modules that are saved here; the tests build them again and load what dcpctl wrote into them."""
import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, dim, hidden, rope):
        super().__init__()
        self.norm = nn.LayerNorm(dim, bias=False)
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.register_buffer("rope", rope)

    def forward(self, x):
        q, k, v = self.wqkv(self.norm(x)).chunk(3, -1)
        q, k = q * self.rope[: q.shape[1]], k * self.rope[: k.shape[1]]
        x = x + self.wo(functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.w2(functional.gelu(self.w1(x)))


class Transformer(nn.Module):
    """Two blocks that share one buffer, and an output layer that is the embedding. No size is a multiple of 4."""

    def __init__(self, vocabulary=67, dim=18, hidden=37, layers=2):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocabulary, dim)
        rope = torch.cos(torch.arange(16.0)[:, None] / torch.arange(1, dim + 1))
        self.layers = nn.ModuleDict({str(i): Block(dim, hidden, rope) for i in range(layers)})
        self.norm = nn.LayerNorm(dim, bias=False)
        self.output = nn.Linear(dim, vocabulary, bias=False)
        self.output.weight = self.tok_embeddings.weight

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers.values():
            x = layer(x)
        return self.output(self.norm(x))


class Toy(nn.Module):
    """The model of PyTorch's DCP tutorial, smaller."""

    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(8, 11)
        self.net2 = nn.Linear(11, 5)

    def forward(self, x):
        return self.net2(functional.relu(self.net1(x)))


class Lit(nn.Module):
    """A LightningModule as its state_dict shows it: the network is an attribute called model."""

    def __init__(self):
        super().__init__()
        self.model = Toy()
        self.register_buffer("ema_decay", torch.tensor(0.99))

    def forward(self, x):
        return self.model(x)


class Mnist(nn.Module):
    """The network of PyTorch's FSDP MNIST example, smaller."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 3, 3, 2)
        self.conv2 = nn.Conv2d(3, 5, 3, 2)
        self.fc1 = nn.Linear(180, 13)
        self.fc2 = nn.Linear(13, 10)

    def forward(self, x):
        x = functional.relu(self.conv2(functional.relu(self.conv1(x))))
        return functional.log_softmax(self.fc2(functional.relu(self.fc1(torch.flatten(x, 1)))), 1)
