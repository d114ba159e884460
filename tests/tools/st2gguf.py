#!/usr/bin/env python3
"""Convert a small model folder (config.json + *.safetensors) to GGUF for the tests.

  st2gguf.py FOLDER OUT.gguf [--arch NAME]

Families llama, mistral (written as llama), qwen2, qwen3. Standard library only; slow, meant for the tiny models in tests/data/models.
Matrices keep their stored type (F32, F16, BF16); norms and biases become F32. No tokenizer is written.

What the conversion means:
* GGUF's llama family rotates neighbouring pairs (2i, 2i+1) where the published checkpoints rotate (i, i + E/2), so the rows of q and k are
  reordered per head: new row 2i + j is old row j*E/2 + i.
* llama3 rope scaling becomes the tensor rope_freqs.weight: a divisor per frequency, computed as Llama 3.1's reference does (wavelengths
  above original/low are divided by factor, below original/high left alone, a linear blend of the frequencies between).
"""
import argparse
import glob
import json
import math
import os
import struct
import sys

U32, F32, STR = 4, 6, 8
GGML = {"F32": (0, 4), "F16": (1, 2), "BF16": (30, 2)}
ALIGN = 32


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}"""
    with open(path, "rb") as f:
        b = f.read()
    (n,) = struct.unpack_from("<Q", b)
    head = json.loads(b[8:8 + n])
    head.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], b[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]) for k, v in head.items()}


def to_f32(dtype, raw):
    if dtype == "F32":
        return raw
    if dtype == "BF16":
        return b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
    if dtype == "F16":
        n = len(raw) // 2
        return struct.pack(f"<{n}f", *struct.unpack(f"<{n}e", raw))
    raise SystemExit(f"st2gguf: dtype {dtype} is not handled")


def permute(raw, rows, heads):
    """Rows of each head from (i, i + E/2) order to neighbouring pairs."""
    size, e = len(raw) // rows, rows // heads
    row = [raw[i * size:(i + 1) * size] for i in range(rows)]
    return b"".join(row[h * e + j * (e // 2) + i] for h in range(heads) for i in range(e // 2) for j in range(2))


def llama3_factors(base, e, r):
    out = []
    for i in range(0, e, 2):
        wave = 2 * math.pi * base ** (i / e)
        old, low, high = r["original_max_position_embeddings"], r["low_freq_factor"], r["high_freq_factor"]
        if wave < old / high:
            out.append(1.0)
        elif wave > old / low:
            out.append(r["factor"])
        else:
            m = (old / wave - low) / (high - low)
            out.append(1 / ((1 - m) / r["factor"] + m))
    return struct.pack(f"<{len(out)}f", *out)


LAYER = {
    "input_layernorm.weight": "attn_norm.weight", "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight", "self_attn.o_proj.weight": "attn_output.weight", "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.bias": "attn_k.bias", "self_attn.v_proj.bias": "attn_v.bias", "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight", "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight", "mlp.up_proj.weight": "ffn_up.weight", "mlp.down_proj.weight": "ffn_down.weight",
}
GLOBAL = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}


def gguf_name(name):
    if name in GLOBAL:
        return GLOBAL[name]
    part = name.split(".", 3)
    if len(part) == 4 and part[:2] == ["model", "layers"] and part[3] in LAYER:
        return f"blk.{part[2]}.{LAYER[part[3]]}"
    raise SystemExit(f"st2gguf: tensor {name} is not known")


def string(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def pair(key, t, v):
    return string(key) + struct.pack("<I", t) + (string(v) if t == STR else struct.pack("<I" if t == U32 else "<f", v))


def main():
    ap = argparse.ArgumentParser(description="Convert a small model folder (config.json + *.safetensors) to GGUF.")
    ap.add_argument("folder")
    ap.add_argument("out")
    ap.add_argument("--arch", help="general.architecture to write (default: from model_type, mistral becomes llama)")
    a = ap.parse_args()
    with open(os.path.join(a.folder, "config.json")) as f:
        c = json.load(f)
    family = c["model_type"]
    if family not in ("llama", "mistral", "qwen2", "qwen3"):
        raise SystemExit(f"st2gguf: model_type {family} is not handled")
    arch = a.arch or ("llama" if family == "mistral" else family)
    heads = c["num_attention_heads"]
    kv_heads = c.get("num_key_value_heads") or heads
    e = c.get("head_dim") or c["hidden_size"] // heads
    rope = c.get("rope_scaling") or c.get("rope_parameters") or {}
    base = c.get("rope_theta") or rope.get("rope_theta", 10000.0)
    kind = rope.get("rope_type", rope.get("type", "default"))

    tensors = []  # name, ggml dims, ggml type, bytes
    for path in sorted(glob.glob(os.path.join(a.folder, "*.safetensors"))):
        for name, (dtype, shape, raw) in read_safetensors(path).items():
            if name == "lm_head.weight" and c.get("tie_word_embeddings"):
                continue
            to = gguf_name(name)
            if len(shape) == 1:
                dtype, raw = "F32", to_f32(dtype, raw)
            if dtype not in GGML:
                raise SystemExit(f"st2gguf: {name}: dtype {dtype} is not handled")
            if arch in ("llama", "mistral") and to.split(".")[-2] in ("attn_q", "attn_k"):
                raw = permute(raw, shape[0], heads if ".attn_q." in to else kv_heads)
            tensors.append((to, shape[::-1], GGML[dtype][0], raw))
    if not tensors:
        raise SystemExit(f"st2gguf: no *.safetensors in {a.folder}")
    tensors.sort(key=lambda t: [int(x) if x.isdigit() else x for x in t[0].split(".")] if t[0].startswith("blk.") else ["", 0, t[0]])

    kv = [("general.architecture", STR, arch), ("general.name", STR, "tiny " + family), (f"{arch}.block_count", U32, c["num_hidden_layers"]),
          (f"{arch}.context_length", U32, c["max_position_embeddings"]), (f"{arch}.embedding_length", U32, c["hidden_size"]),
          (f"{arch}.feed_forward_length", U32, c["intermediate_size"]), (f"{arch}.attention.head_count", U32, heads),
          (f"{arch}.attention.head_count_kv", U32, kv_heads), (f"{arch}.attention.key_length", U32, e),
          (f"{arch}.attention.value_length", U32, e), (f"{arch}.attention.layer_norm_rms_epsilon", F32, c["rms_norm_eps"]),
          (f"{arch}.rope.dimension_count", U32, e), (f"{arch}.rope.freq_base", F32, base), (f"{arch}.vocab_size", U32, c["vocab_size"])]
    if c.get("sliding_window") and c.get("use_sliding_window", True):
        kv.append((f"{arch}.attention.sliding_window", U32, c["sliding_window"]))
    if kind == "llama3":
        tensors.insert(0, ("rope_freqs.weight", [e // 2], 0, llama3_factors(base, e, rope)))
    elif kind == "linear":
        kv += [(f"{arch}.rope.scaling.type", STR, "linear"), (f"{arch}.rope.scaling.factor", F32, rope["factor"])]
    elif kind != "default":
        raise SystemExit(f"st2gguf: rope scaling {kind} is not handled")

    info, data = b"", []
    off = 0
    for name, dims, t, raw in tensors:
        info += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, t, off)
        data.append(raw + b"\0" * (-len(raw) % ALIGN))
        off += len(data[-1])
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(kv)) + b"".join(pair(*x) for x in kv) + info
    with open(a.out, "wb") as f:
        f.write(head + b"\0" * (-len(head) % ALIGN) + b"".join(data))


if __name__ == "__main__":
    sys.exit(main())
