#!/usr/bin/env python3
"""Writes the fixtures of the test: a tiny BERT with random weights, and what transformers makes of sentences.

pip install torch==2.15.0 transformers==5.23.0 sentence-transformers==6.2.0
python3 make_fixtures.py [FOLDER]   FOLDER: all-MiniLM-L6-v2, whose vectors go into minilm.json
"""
import json
import os
import sys

import tokenizers
import torch
from transformers import BertConfig, BertModel

here = os.path.dirname(os.path.abspath(__file__))
sentences = [
    "The cat sat on the mat.",
    "A kitten lay upon the rug!",
    "  Crème   brûlée, naïve\tcafé\n— it's 3,50 € ",
    "Matrices multiply; vectors don't: 42×17≠x^2 [sic] `code`_~",
    "漢字とかな mixed with 数字 12",
    "unaffable untokenizable " + "a" * 101 + " ​zero\u00adwidth\x07bell",
    "",
]


def write(path, tokens, vectors):
    with open(os.path.join(here, path), "w") as f:
        json.dump([{"text": s, "tokens": t, "vector": [float(f"{x:.9g}") for x in v]}
                   for s, t, v in zip(sentences, tokens, vectors)], f, indent=0)


def tiny():
    torch.manual_seed(1)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,:;!'^_~`—€×≠[]漢字数"
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + list(letters) + ["##" + c for c in letters[:36]]
    vocab += ["the", "cat", "sat", "on", "mat", "kitten", "upon", "##able", "un", "##aff", "token", "##iz", "cafe", "creme", "##ctors", "ve"]
    config = BertConfig(vocab_size=len(vocab), hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=64, max_position_embeddings=160, initializer_range=0.3)
    model = BertModel(config, add_pooling_layer=False).eval()
    with torch.no_grad():  # biases and norms that are not what they begin as
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(0.1 * torch.randn_like(p))
    folder = os.path.join(here, "tiny")
    model.save_pretrained(folder)
    with open(os.path.join(folder, "vocab.txt"), "w") as f:
        f.write("".join(t + "\n" for t in vocab))
    t = tokenizers.Tokenizer(tokenizers.models.WordPiece({t: i for i, t in enumerate(vocab)}, unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokens, vectors = [], []
    for s in sentences:
        ids = [2] + t.encode(s, add_special_tokens=False).ids[:158] + [3]
        with torch.no_grad():
            x = model(input_ids=torch.tensor([ids])).last_hidden_state[0].mean(0)
        tokens.append(ids)
        vectors.append((x / x.norm()).tolist())
    write("tiny.json", tokens, vectors)


def real(folder):
    from sentence_transformers import SentenceTransformer
    model = SentenceTransformer(folder, device="cpu")
    tokens = [model.tokenizer(s, truncation=True, max_length=256)["input_ids"] for s in sentences]
    vectors = [model.encode(s, normalize_embeddings=True, convert_to_numpy=True).tolist() for s in sentences]
    write("minilm.json", tokens, vectors)


tiny()
if len(sys.argv) > 1:
    real(sys.argv[1])
